#!lua flags=allow-oom
-- Takes a key that is free or was freed, that an earlier run of the same task holds, or whose holder has ended.
-- Otherwise returns the holder, and records the asking task, to be woken. A key held by a task does not expire, and is
-- listed in `held`; a result and a lease expire with the key itself, and so does a free one: its origin is remembered
-- until then.
-- keys: root
-- args: key, digest, task, epoch, lease_ms, instead_of_task, instead_of_epoch, most_waiters, ttl_ms, run
-- bound: one key
-- returns: { 1, origin } owned | { 2, epoch } another run of this task has it, under no lower epoch | { 3, by, result } done | { 4, task, epoch, held_ms, asked }
--   held | { 5, task, epoch, held_ms } another input, held | { 6 } another input, done
local root, key, digest, task, epoch = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lease_ms, instead_of, instead_epoch, most = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local ttl_ms, run = ARGV[9], ARGV[10]
-- include: now
local record, held = root .. 'k:' .. key, root .. 'held'
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'digest', 'held_at', 'origin', 'freed_by', 'run')
local state, holder, holder_epoch, held_at = found[1], found[2], tonumber(found[3]), found[5]
local is_held, is_own = state == 'held', holder == task
-- Freed by the very run that holds it: a process of an older version takes such a key over silently.
local is_free = is_held and found[7] == holder .. '@' .. found[3]
-- Of two runs under one epoch the first has it: the other asks the ledger which of them owns the task.
local is_earlier = is_held and is_own and (holder_epoch < epoch or (holder_epoch == epoch and (found[8] or run) == run))
local takes = not state or is_free or is_earlier
  or (is_held and not is_own and holder == instead_of and holder_epoch == instead_epoch)
if takes then
  local origin = found[6] or holder or task
  redis.call('HDEL', record, 'w:' .. task, 'result', 'freed_by')
  if not is_own or is_free then held_at = now_ms end
  redis.call('HSET', record, 'state', 'held', 'task', task, 'epoch', ARGV[4], 'digest', digest, 'held_at', held_at, 'origin', origin, 'ttl', ttl_ms, 'run', run)
  if lease_ms == '' then
    redis.call('PERSIST', record)
    redis.call('ZADD', held, now_ms, key)
  else
    redis.call('PEXPIRE', record, lease_ms)
  end
  return { 1, origin }
end
if is_own and is_held then return { 2, holder_epoch } end
if not is_own and found[4] ~= digest then
  if is_held then return { 5, holder, found[3], now_ms - held_at } end
  return { 6 }
end
if not is_held then return { 3, holder, redis.call('HGET', record, 'result') } end
local asked = most
-- Eight fields are not waiters.
if lease_ms == '' and (redis.call('HLEN', record) < most + 8 or redis.call('HEXISTS', record, 'w:' .. task) == 1) then
  asked = redis.call('HINCRBY', record, 'w:' .. task, 1)
end
return { 4, holder, found[3], now_ms - held_at, asked }

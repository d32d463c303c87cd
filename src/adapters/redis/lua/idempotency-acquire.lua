#!lua flags=allow-oom
-- Takes a key that is free or was freed, that an earlier run of the same task holds, or whose holder has ended. Otherwise says who has
-- it, and remembers the asker, to be woken. A key that a task holds has no time of its own, and stands in `held`; a result
-- and a lease end with the key itself, and so does one that is free: its origin is remembered until then.
-- keys: root
-- args: key, digest, task, epoch, lease_ms, instead_of_task, instead_of_epoch, most_waiters, ttl_ms
-- returns: { 1, origin } owned | { 2 } a later run of this task has it | { 3, by, result } done | { 4, task, epoch, held_ms, asked }
--   held | { 5, task, epoch, held_ms } another input, held | { 6 } another input, done
local root, key, digest, task, epoch = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lease_ms, instead_of, instead_epoch, most = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local ttl_ms = ARGV[9]
-- include: now
local record, held = root .. 'k:' .. key, root .. 'held'
local found = redis.call('HMGET', record, 'state', 'task', 'epoch', 'digest', 'held_at', 'origin', 'freed_by')
local state, holder, holder_epoch, held_at = found[1], found[2], tonumber(found[3]), found[5]
local is_held, is_own = state == 'held', holder == task
-- Freed by the very run that is its holder: a process of an older version takes the place of that without a word.
local is_free = is_held and found[7] == holder .. '@' .. found[3]
local takes = not state or is_free or (is_held and is_own and holder_epoch <= epoch)
  or (is_held and not is_own and holder == instead_of and holder_epoch == instead_epoch)
if takes then
  local origin = found[6] or holder or task
  redis.call('HDEL', record, 'w:' .. task, 'result', 'freed_by')
  if not is_own or is_free then held_at = now_ms end
  redis.call('HSET', record, 'state', 'held', 'task', task, 'epoch', ARGV[4], 'digest', digest, 'held_at', held_at, 'origin', origin, 'ttl', ttl_ms)
  if lease_ms == '' then
    redis.call('PERSIST', record)
    redis.call('ZADD', held, now_ms, key)
  else
    redis.call('PEXPIRE', record, lease_ms)
  end
  return { 1, origin }
end
if is_own and is_held then return { 2 } end
if not is_own and found[4] ~= digest then
  if is_held then return { 5, holder, found[3], now_ms - held_at } end
  return { 6 }
end
if not is_held then return { 3, holder, redis.call('HGET', record, 'result') } end
local asked = most
-- Seven fields are not waiters.
if lease_ms == '' and (redis.call('HLEN', record) < most + 7 or redis.call('HEXISTS', record, 'w:' .. task) == 1) then
  asked = redis.call('HINCRBY', record, 'w:' .. task, 1)
end
return { 4, holder, found[3], now_ms - held_at, asked }

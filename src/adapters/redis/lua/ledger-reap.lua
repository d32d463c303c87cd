#!lua flags=allow-oom
-- Brings back up to `limit` tasks that closed incarnations were running: waiting, with the due time they had, so that
-- they stand in front of what came later; or dead when the crash budget is spent. It needs no memory of who was
-- condemned: if a reaper dies, the next look of any reaper goes on.
-- keys: root
-- args: limit, celery_keep_ms
-- returns: the server's milliseconds, then for each task its id, name, queue, crashes, and 1 when it is dead
local root, limit, celery_keep_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: celery-result
local REMEMBER_CLOSED_MS = 60000
local tasks = {}

local function bring_back(id, record)
  record[CRASHES] = record[CRASHES] + 1
  blame(record, 1)
  local is_spent = record[CRASHES] > record[BUDGET]
  if is_spent then
    note(record, 'x')
    local why = '"message":"its worker died ' .. record[CRASHES] .. ' times"'
    local err = '{"type":"ERR_RESURRECTIONS_SPENT",' .. why .. ',"traceback":""}'
    tell_celery_error(id, record, 'FAILURE', err)
    die(id, record, 'ERR_RESURRECTIONS_SPENT', err)
  else
    note(record, 'p')
    wait(id, record, nil)
  end
  write(id, record)
  tasks[#tasks + 1] = { id, record[NAME], record[QUEUE], record[CRASHES], is_spent and 1 or 0 }
end

for _, worker in ipairs(redis.call('ZRANGE', root .. 'closed', 0, -1)) do
  if #tasks >= limit then break end
  local ids = redis.call('HRANDFIELD', root .. 'r:' .. worker, limit - #tasks)
  read(ids)
  for _, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == 'r' and record[OWNER] == worker then
      let_go(id, record)
      bring_back(id, record)
    else
      plan('HDEL', root .. 'r:' .. worker, id)
    end
  end
end
flush()
local forgotten = redis.call('ZRANGEBYSCORE', root .. 'closed', '-inf', now_ms - REMEMBER_CLOSED_MS)
for _, worker in ipairs(forgotten) do
  if redis.call('EXISTS', root .. 'r:' .. worker) == 0 then
    redis.call('ZREM', root .. 'closed', worker)
    redis.call('HDEL', root .. 'workers', worker)
  end
end
return { now_ms, tasks }

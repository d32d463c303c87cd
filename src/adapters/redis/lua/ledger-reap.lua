#!lua flags=allow-oom
-- Brings back up to `limit` tasks that closed incarnations were running: waiting, with their earlier due time, so that
-- they go before later tasks; or dead when the crash budget is spent. It keeps no state about what was condemned: if a
-- reaper dies, the next pass of any reaper continues.
-- keys: root
-- args: limit, celery_keep_ms
-- bound: `limit` tasks, up to 500; 5000 closed incarnations are looked at, 500 of them forgotten
-- returns: the server's milliseconds, for each task its id, name, queue, crashes, 1 when it is dead, its worker, and how that
-- ended; how many were looked at
local root, limit, celery_keep_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: celery-result
local REMEMBER_CLOSED_MS, MOST_CLOSED, MOST_FORGOTTEN = 60000, 5000, 500
local tasks, looked = {}, 0

local function bring_back(id, record, worker, death)
  record[CRASHES] = record[CRASHES] + 1
  blame(record, 1)
  local is_spent = record[CRASHES] > record[BUDGET]
  if is_spent then
    note(record, STEP_DEAD, death)
    local last = death and '; the last time: ' .. cjson.decode(death).message or ''
    local why = cjson.encode('its worker died ' .. record[CRASHES] .. ' times' .. last)
    local err = '{"type":"ERR_RESURRECTIONS_SPENT","message":' .. why .. ',"traceback":""}'
    tell_celery_error(id, record, 'FAILURE', err)
    die(id, record, 'ERR_RESURRECTIONS_SPENT', err)
  else
    note(record, STEP_REAPED, death)
    tally(record[NAME], record[QUEUE], 'resurrected', 1)
    wait(id, record, nil)
  end
  write(id, record)
  tasks[#tasks + 1] = { id, record[NAME], record[QUEUE], record[CRASHES], is_spent and 1 or 0, worker, death }
end

-- Those without runs are dropped below, so that they do not hold up the others for long.
for _, worker in ipairs(redis.call('ZRANGE', root .. 'closed', 0, MOST_CLOSED - 1)) do
  if looked >= limit then break end
  local death = redis.call('HGET', root .. 'deaths', worker)
  local ids = redis.call('HRANDFIELD', root .. 'r:' .. worker, limit - looked)
  looked = looked + #ids
  read(ids)
  for _, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == STATE_RUNNING and record[OWNER] == worker then
      let_go(id, record)
      bring_back(id, record, worker, death)
    else
      plan('HDEL', root .. 'r:' .. worker, id)
    end
  end
end
flush()
local forgotten = redis.call('ZRANGEBYSCORE', root .. 'closed', '-inf', now_ms - REMEMBER_CLOSED_MS, 'LIMIT', 0, MOST_FORGOTTEN)
for _, worker in ipairs(forgotten) do
  if redis.call('EXISTS', root .. 'r:' .. worker) == 0 then
    redis.call('ZREM', root .. 'closed', worker)
    redis.call('HDEL', root .. 'workers', worker)
    redis.call('HDEL', root .. 'deaths', worker)
  end
end
return { now_ms, tasks, looked }

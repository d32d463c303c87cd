#!lua flags=allow-oom
-- Writes for Celery's callers how tasks ended that are never sent, because the task `of` ended without a result. A task
-- with a record was sent after all, and so was one with a result: those are left alone. One that Celery has started is
-- not: it may have replaced itself with a chain that ends under its id.
-- keys: root
-- args: celery_keep_ms, status, result, traceback, of, id...
-- bound: 500 ids
-- returns: how many were written
local root, celery_keep_ms, status, result, traceback, of = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- include: now
-- include: ledger-record
-- include: celery-result
local told = 0
for place = 6, #ARGV do
  local id = ARGV[place]
  local head = redis.call('GETRANGE', 'celery-task-meta-' .. id, 0, 40)
  local is_done = string.find(head, '"status": "SUCCESS"', 1, true)
  if not is_done and redis.call('EXISTS', root .. 't:' .. id) == 0 then
    write_celery(id, status, result, traceback, ', "outlast_ended": ' .. cjson.encode(of))
    told = told + 1
  end
end
flush()
return told

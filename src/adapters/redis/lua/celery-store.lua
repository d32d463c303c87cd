#!lua flags=allow-oom
-- Stores an answer where Python's AsyncResult looks for it, and notifies the waiters. A task that was done stays done, as with
-- Celery: an answer may be repeated late.
-- keys: meta
-- args: answer, keep_ms
-- bound: one answer
-- returns: 1 stored | 0 it was done already
local meta, answer, keep_ms = KEYS[1], ARGV[1], ARGV[2]
-- Celery writes the state first, we write the id before it; both write it before the value.
local HEAD_BYTES = 400
if string.find(redis.call('GETRANGE', meta, 0, HEAD_BYTES), '"status": "SUCCESS"', 1, true) then return 0 end
redis.call('SET', meta, answer, 'PX', keep_ms)
redis.call('PUBLISH', meta, answer)
return 1

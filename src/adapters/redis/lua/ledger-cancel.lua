#!lua flags=allow-oom
-- Leaves a tombstone for a task, whether or not it has arrived: it never comes back. `how` applies if it has not:
-- 'leave' one, leave a 'copy' of one that is stored and counted elsewhere, or none, for tasks that are 'known' only.
-- keys: root
-- args: id, how, celery_keep_ms
-- bound: one task
-- returns: 1 cancelled, now or before | 2 done or dead already | 3 no record, and none was wanted
local root, id, how, celery_keep_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: celery-result
read({ id })
local record = records[id]
if not record then
  if how == 'known' then return 3 end
  record = new_record({ id, 'unknown', '', 0, 1, '', false, false, '', '' }, 0)
elseif record[STATE] == STATE_CANCELLED then
  return 1
elseif record[STATE] == STATE_RUNNING then
  let_go(id, record)
elseif record[STATE] == STATE_WAITING then
  leave(id, record)
else
  return 2
end
tell_celery_revoked(id, record, 'revoked')
note(record, STEP_CANCELLED)
finish(id, record, STATE_CANCELLED, 'cancelled', DAY_MS)
write(id, record)
if how == 'copy' and #created > 0 then created, counted, tallied, kept = {}, {}, {}, {} end
flush()
return 1

#!lua flags=allow-oom
-- Ends failed attempts: waiting until the delay is over, or dead without one. A crash is counted separately, and the
-- task stays before later ones.
-- keys: root
-- args: items, celery_keep_ms
-- bound: 500 items
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result
-- include: ledger-waiting
-- include: ledger-settle
-- An item continues with: the error, the delay in milliseconds or false, the reason of a death, whether it was a crash.
return settle(cmsgpack.unpack(ARGV[1]), 'f', function(id, record, item)
  local err, delay_ms, reason, is_crash = item[4], item[5], item[6], item[7]
  local counter = is_crash and CRASHES or FAILURES
  record[counter] = record[counter] + 1
  blame(record, 1)
  if not is_crash then tally(record[NAME], record[QUEUE], 'failed', 1) end
  if delay_ms then tally(record[NAME], record[QUEUE], is_crash and 'resurrected' or 'retried', 1) end
  tell_celery_error(id, record, delay_ms and 'RETRY' or 'FAILURE', err)
  if delay_ms then
    note(record, is_crash and STEP_CRASHED or STEP_FAILED, err)
    wait(id, record, not is_crash and delay_ms or nil)
  else
    note(record, STEP_DEAD, err)
    die(id, record, reason, err)
  end
end)

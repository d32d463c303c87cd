#!lua flags=allow-oom
-- Ends failed attempts: waiting until the delay is over, or dead where there is none.
-- keys: root
-- args: items, celery_keep_ms
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result
-- include: ledger-waiting
-- include: ledger-settle
-- An item goes on with: the error, the delay in milliseconds or false, the reason of a death.
return settle(cmsgpack.unpack(ARGV[1]), 'f', function(id, record, item)
  local err, delay_ms, reason = item[4], item[5], item[6]
  record[FAILURES] = record[FAILURES] + 1
  blame(record, 1)
  tell_celery_error(id, record, delay_ms and 'RETRY' or 'FAILURE', err)
  if delay_ms then
    note(record, 'f', err)
    wait(id, record, delay_ms)
  else
    note(record, 'x', err)
    die(id, record, reason, err)
  end
end)

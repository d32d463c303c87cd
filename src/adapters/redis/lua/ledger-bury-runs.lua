#!lua flags=allow-oom
-- Ends runs as dead letters, without counting a failed attempt.
-- keys: root
-- args: items, celery_keep_ms
-- bound: 500 items
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result
-- include: ledger-settle
-- An item continues with: the error, the reason of the death.
return settle(cmsgpack.unpack(ARGV[1]), 'u', function(id, record, item)
  tell_celery_error(id, record, 'FAILURE', item[4])
  note(record, STEP_BURIED, item[4])
  die(id, record, item[5], item[4])
end)

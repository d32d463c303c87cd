#!lua flags=allow-oom
-- Ends runs as dead letters, without a failed attempt being counted.
-- keys: root
-- args: items, celery_keep_ms
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result
-- include: ledger-settle
-- An item goes on with: the error, the reason of the death.
return settle(cmsgpack.unpack(ARGV[1]), 'u', function(id, record, item)
  tell_celery_error(id, record, 'FAILURE', item[4])
  note(record, 'u', item[4])
  die(id, record, item[5], item[4])
end)

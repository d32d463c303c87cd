#!lua flags=allow-oom
-- Ends runs as done: result, tombstone, follow-ups and counters, and only for the run that owns the task. The tombstone
-- goes by itself when its time is over; the counters stay.
-- keys: root
-- args: items, celery_keep_ms
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result
-- include: ledger-settle
-- An item goes on with: ending, why, result, milliseconds to keep it, and keys and bytes of what must follow.
return settle(cmsgpack.unpack(ARGV[1]), 'c', function(id, record, item)
  local ending, why, result, keep_ms, after = item[4], item[5], item[6], item[7], item[8]
  if ending == 'done' then
    tell_celery(id, record, 'SUCCESS', result or 'null', 'null')
  else
    tell_celery_revoked(id, record, 'discarded: ' .. why)
  end
  note(record, ending == 'done' and 'd' or 'i')
  finish(id, record, 'd', ending, keep_ms)
  record[WHY], record[ERROR] = why, ''
  -- One place is enough.
  record[RESULT] = celery_keep_ms == 0 and result
  write_all_after(after)
end)

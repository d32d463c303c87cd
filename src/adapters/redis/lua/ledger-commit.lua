#!lua flags=allow-oom
-- Ends runs as done: result, tombstone, follow-ups and counters, and only for the run that owns the task. The tombstone
-- expires by itself; the counters stay.
-- keys: root
-- args: items, celery_keep_ms
-- bound: 500 items, 8 MiB with their follow-ups
-- returns: for each item 1 done | 2 not the owner | 3 no record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result
-- include: ledger-settle
-- An item continues with: ending, why, result, milliseconds to keep it, keys and bytes of follow-ups, and children for Celery.
return settle(cmsgpack.unpack(ARGV[1]), 'c', function(id, record, item)
  local ending, why, result, keep_ms, after = item[4], item[5], item[6], item[7], item[8]
  if ending == 'done' then
    tell_celery(id, record, 'SUCCESS', result or 'null', 'null', item[9])
  else
    tell_celery_revoked(id, record, 'discarded: ' .. why)
  end
  note(record, ending == 'done' and STEP_DONE or STEP_DISCARDED)
  finish(id, record, STATE_DONE, ending, keep_ms)
  record[WHY], record[ERROR] = why, ''
  -- It is stored once.
  record[RESULT] = celery_keep_ms == 0 and result
  write_all_after(after)
end)

#!lua flags=allow-oom
-- Ends runs of tasks that were new when they were begun, as `ledger-commit` does, without reading their records: their
-- worker knows all of them, and passes what the tombstones keep. The entry among the worker's runs proves that a run
-- still owns its task, and that nothing was added to the record, as long as it is what `begin` wrote. Otherwise
-- `ledger-commit` must read the record.
-- keys: root
-- args: batches, celery_keep_ms
-- bound: 500 items, 8 MiB with their follow-ups
-- returns: for each task of each batch 1 done | 0 look at the record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result

-- The members of a tombstone before the worker's part, after it, and after the result; and its expiry.
local function around(worker, epoch, run, begun_ms, keep_ms)
  local history = STEP_BEGUN .. digits(begun_ms) .. ' ' .. digits(epoch) .. ' ' .. worker .. '\n'
    .. STEP_DONE .. now_text .. ' ' .. digits(epoch) .. ' \n'
  local keep = now_ms + math.max(1, keep_ms)
  return RECORD_HEAD .. pack_places(STATE_DONE, epoch, '', '', 'c ' .. run),
    pack_places(0, 0, begun_ms, history, 0, 0, 0, 'done', now_ms, '', ''), cmsgpack.pack(keep), digits(keep)
end

local statuses, is_ended = {}, {}
for _, batch in ipairs(cmsgpack.unpack(ARGV[1])) do
  -- Parallel lists: ids, the number of the kind, and the members DIGEST to EXPIRES of the tombstone; results, keys and
  -- bytes of follow-ups, whether Celery is not notified, and children for Celery. A list without any value is empty. A kind is: queue, the
  -- members NAME to VERSION, and the members OPTIONS to BUDGET.
  local worker, epoch, run, begun_ms, keep_ms, kinds, ids, kind_of, parts_of, results, after, untold, children = unpack(batch)
  local noted = digits(epoch) .. ' ' .. run
  local found = {}
  in_slices(ids, function(first, last)
    for place, value in ipairs(redis.call('HMGET', root .. 'r:' .. worker, unpack(ids, first, last))) do
      found[first + place - 1] = value
    end
  end)
  local head, middle, tail, keep = around(worker, epoch, run, begun_ms, keep_ms)
  local heads, tails, names, done_of, slow_of = {}, {}, {}, {}, {}
  for number, kind in ipairs(kinds) do
    heads[number], tails[number] = head .. kind[2], kind[3] .. middle
    names[number] = cmsgpack.unpack('\148' .. kind[2])[1]
  end
  local done = ended[worker] or {}
  for place, id in ipairs(ids) do
    local is_ours = found[place] == noted and not is_ended[id]
    statuses[#statuses + 1] = is_ours and 1 or 0
    if is_ours then
      is_ended[id] = true
      done[#done + 1] = id
      local kind, result = kind_of[place], results[place]
      local queue = kinds[kind][1]
      moved[queue] = (moved[queue] or 0) - 1
      done_of[kind] = (done_of[kind] or 0) + 1
      if objective_of(names[kind]) and is_slow(names[kind], id, begun_ms, cmsgpack.unpack('\147' .. parts_of[place])[2]) then
        slow_of[kind] = (slow_of[kind] or 0) + 1
      end
      local kept_result = cmsgpack.pack(celery_keep_ms == 0 and result)
      plan('SET', root .. 't:' .. id, heads[kind] .. parts_of[place] .. tails[kind] .. kept_result .. tail, 'PXAT', keep)
      if celery_keep_ms > 0 and not untold[place] then write_celery(id, 'SUCCESS', result or 'null', 'null', nil, children[place]) end
      if after[place] then write_all_after(after[place]) end
    end
  end
  if #done > 0 then ended[worker] = done end
  for kind, by in pairs(done_of) do tally(names[kind], kinds[kind][1], 'done', by) end
  for kind, by in pairs(slow_of) do tally(names[kind], kinds[kind][1], 'slow', by) end
end
for _ in pairs(is_ended) do count('done', 1) end
flush()
return statuses

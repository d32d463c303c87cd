#!lua flags=allow-oom
-- Ends runs of tasks that were new when they were begun, as `ledger-commit` does, without reading their records: their
-- worker knows all of them, and says what of them the tombstones keep. That a run still owns its task, and that nothing
-- was added to the record since, is told by what is noted among the runs of the worker, while that is what `begin` wrote.
-- Whatever else is there, `ledger-commit` must look at the record.
-- keys: root
-- args: batches, celery_keep_ms
-- returns: for each task of each batch 1 done | 0 look at the record
local root, celery_keep_ms = KEYS[1], tonumber(ARGV[2])
-- include: now
-- include: ledger-record
-- include: celery-result

-- The places of a tombstone before what the worker says, behind that, and behind the result; and when it goes.
local function around(worker, epoch, run, begun_ms, keep_ms)
  local history = 'b' .. digits(begun_ms) .. ' ' .. digits(epoch) .. ' ' .. worker .. '\n'
    .. 'd' .. now_text .. ' ' .. digits(epoch) .. ' \n'
  local keep = now_ms + math.max(1, keep_ms)
  return RECORD_HEAD .. pack_places('d', epoch, '', '', 'c' .. digits(epoch) .. ' ' .. run),
    pack_places(0, 0, begun_ms, history, 0, 0, 0, 'done', now_ms, '', ''), cmsgpack.pack(keep), digits(keep)
end

local statuses, is_ended = {}, {}
for _, batch in ipairs(cmsgpack.unpack(ARGV[1])) do
  -- Lists that have a place for each task: ids, the number of its kind, and the places DIGEST to EXPIRES of its tombstone;
  -- results, keys and bytes of what must follow, and whether Celery is told nothing. Those of which no task has anything
  -- are empty. A kind is: queue, its places NAME to VERSION, and the places OPTIONS to BUDGET.
  local worker, epoch, run, begun_ms, keep_ms, kinds, ids, kind_of, parts_of, results, after, untold = unpack(batch)
  local noted = digits(epoch) .. ' ' .. run
  local found = redis.call('HMGET', root .. 'r:' .. worker, unpack(ids))
  local head, middle, tail, keep = around(worker, epoch, run, begun_ms, keep_ms)
  local heads, tails = {}, {}
  for number, kind in ipairs(kinds) do
    heads[number], tails[number] = head .. kind[2], kind[3] .. middle
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
      local kept = cmsgpack.pack(celery_keep_ms == 0 and result)
      plan('SET', root .. 't:' .. id, heads[kind] .. parts_of[place] .. tails[kind] .. kept .. tail, 'PXAT', keep)
      if celery_keep_ms > 0 and not untold[place] then write_celery(id, 'SUCCESS', result or 'null', 'null') end
      if after[place] then write_all_after(after[place]) end
    end
  end
  if #done > 0 then ended[worker] = done end
end
for _ in pairs(is_ended) do count('done', 1) end
flush()
return statuses

-- The frame of every step that ends a run: compare, move, remember the run. An item is: id, epoch, run, and what the
-- step needs. Answers 1 done, also if this same step did it before | 2 another run owns the task, or it ended otherwise
-- | 3 there is no record, so nothing is known. A repeat is recognized by its run and not by its epoch: that may have
-- been raised since the step was first sent.
local function settle(items, step, apply)
  local ids, statuses = {}, {}
  for place, item in ipairs(items) do ids[place] = item[1] end
  read(ids)
  for place, item in ipairs(items) do
    local id, epoch, run = item[1], item[2], item[3]
    local record = records[id]
    local mark = step .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[STATE] == STATE_RUNNING and record[EPOCH] == epoch and record[RUN] == run then
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    else
      statuses[place] = record[SETTLED] == mark and 1 or 2
      if statuses[place] == 2 and step == 'c' then tally(record[NAME], record[QUEUE], 'stale', 1) end
    end
  end
  flush()
  return statuses
end

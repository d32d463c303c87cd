-- The frame of every step that ends a run: compare, move, remember which run it was. An item is: id, epoch, run, and what
-- the step needs. Answers 1 done, also when it was this very step that did it before | 2 another run owns the task, or it
-- ended otherwise | 3 there is no record, so nothing is known.
local function settle(items, step, apply)
  local ids, statuses = {}, {}
  for place, item in ipairs(items) do ids[place] = item[1] end
  read(ids)
  for place, item in ipairs(items) do
    local id, epoch, run = item[1], item[2], item[3]
    local record = records[id]
    local mark = step .. digits(epoch) .. ' ' .. run
    if not record then
      statuses[place] = 3
    elseif record[SETTLED] == mark then
      statuses[place] = 1
    elseif record[STATE] ~= 'r' or record[EPOCH] ~= epoch or record[RUN] ~= run then
      statuses[place] = 2
    else
      record[SETTLED] = mark
      let_go(id, record)
      apply(id, record, item)
      write(id, record)
      statuses[place] = 1
    end
  end
  flush()
  return statuses
end

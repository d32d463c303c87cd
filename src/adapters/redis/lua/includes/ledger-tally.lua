-- What happened to tasks, counted in the step in which it happens: by name and queue since the beginning, and by the minute
-- for tasks with an objective.
local tallied, kept, objectives = {}, {}, {}
local KEPT = { done = true, dead = true, expired = true, slow = true }

-- 'success within_ms latency', each '-' if it is not promised; false: nothing is.
local function objective_of(name)
  if objectives[name] == nil then objectives[name] = redis.call('HGET', root .. 'objectives', name) end
  return objectives[name]
end

local function add_to(counts, key, figure, by)
  local own = counts[key] or {}
  counts[key] = own
  own[figure] = (own[figure] or 0) + by
end

-- `is_message`: it was never begun, and was none of the tasks that an objective is about.
local function tally(name, queue, figure, by, is_message)
  tallied[name] = tallied[name] or {}
  add_to(tallied[name], queue, figure, by)
  if KEPT[figure] and not is_message and objective_of(name) then add_to(kept, name, figure, by) end
end

-- When it was sent, which its id knows if it is of version 7: the queue of the broker is part of how long a task takes.
local function sent_ms(id, created)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return math.min(created, high and tonumber(high .. low, 16) or created)
end

local function is_slow(name, id, created, eta)
  local objective = objective_of(name)
  local within = objective and tonumber(string.match(objective, '^%S+ (%S+)'))
  return within and now_ms - math.max(sent_ms(id, created), eta or 0) > within
end

-- Names come from messages: what comes after so many series is counted under one name.
local MOST_SERIES, OTHER_NAME = LAYOUT_MOST_SERIES, LAYOUT_OTHER_NAME
local function write_tallies()
  local key = root .. 'tally'
  for name, queues in pairs(tallied) do
    for queue, figures in pairs(queues) do
      for figure, by in pairs(figures) do
        local field = cmsgpack.pack({ name, queue, figure })
        if redis.call('HLEN', key) >= MOST_SERIES and redis.call('HEXISTS', key, field) == 0 then
          field = cmsgpack.pack({ OTHER_NAME, OTHER_NAME, figure })
        end
        redis.call('HINCRBY', key, field, by)
      end
    end
  end
  local minute = string.format('%.0f', now_ms - now_ms % 60000)
  for name, figures in pairs(kept) do
    for figure, by in pairs(figures) do redis.call('HINCRBY', root .. 'slo:' .. name, figure .. ':' .. minute, by) end
  end
end

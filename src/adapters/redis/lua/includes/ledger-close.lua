-- Closes incarnations: nothing begins under them from here on. The time is remembered for a minute after all their runs
-- are back, so that an opening still in transit does not open them again. So is how they ended, for the histories of their
-- tasks: `death_of` gives it as JSON text.
local function close(workers, death_of, is_unknown_too)
  local closed, deaths = {}, {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then
      closed[#closed + 1], deaths[#deaths + 1] = worker, death_of(worker)
      redis.call('HSET', root .. 'deaths', worker, deaths[#deaths])
    end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed, deaths }
end

-- Closes incarnations: nothing begins under them from here on. The time is remembered for a minute after all their runs
-- are back, so that an opening still in transit does not open them again.
local function close(workers, is_unknown_too)
  local closed = {}
  for _, worker in ipairs(workers) do
    local is_open = redis.call('ZREM', root .. 'leases', worker) == 1
    if is_open then closed[#closed + 1] = worker end
    if is_open or is_unknown_too then redis.call('ZADD', root .. 'closed', 'NX', now_ms, worker) end
  end
  return { now_ms, closed }
end

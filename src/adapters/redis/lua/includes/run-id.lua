-- Which server this is: every start and every failover shows another. A user who may not ask has a ledger that notices
-- only the loss of all data.
local function run_id_of_server()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or 'unknown'
end

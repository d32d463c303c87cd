-- The server's replication history. It changes with every start, and with every promotion of a replica, also one that
-- was the primary before. If the user may not run INFO, the ledger notices only the loss of all data.
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or 'unknown'
end

#!lua flags=allow-oom
-- Closes the incarnations of a process that was seen to end, whatever their deadline.
-- keys: root
-- args: process, death
-- bound: the rows of all open incarnations are read
-- returns: the server's milliseconds, the incarnations closed, how each ended
local root, process, death = KEYS[1], ARGV[1], ARGV[2]
-- include: now
-- include: ledger-close
local theirs = {}
for _, worker in ipairs(redis.call('ZRANGE', root .. 'leases', 0, -1)) do
  local row = redis.call('HGET', root .. 'workers', worker)
  if row and cmsgpack.unpack(row)[1] == process then theirs[#theirs + 1] = worker end
end
return close(theirs, function() return death end)

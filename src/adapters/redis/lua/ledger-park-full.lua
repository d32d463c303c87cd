#!lua flags=allow-oom
-- As `ledger-park`, also when memory is full: if messages come from the same server, parking them is the only way to
-- free their memory.
-- keys: root
-- args: items
-- bound: 500 items, 8 MiB
-- returns: 1
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: ledger-bury-message
-- include: ledger-park
park(cmsgpack.unpack(ARGV[1]))
return 1

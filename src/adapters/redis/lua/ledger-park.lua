#!lua
-- Takes custody of messages: waiting, due after their delay, or at their eta if there is none. An existing record is
-- left alone; the same id with other bytes is kept as a dead letter under id and digest, so that it neither runs nor
-- vanishes. Refused when memory is full, also without items: the caller still has the message. `ledger-park-full` is the
-- same without that.
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

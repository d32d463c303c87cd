#!lua flags=no-writes
-- What happened to tasks since the beginning, by name, queue and figure.
-- keys: root
-- args: none
-- bound: every name, queue and figure, up to a limit that `ledger-tally` has
-- returns: pairs of a packed name, queue and figure, and a count
local root = KEYS[1]
return redis.call('HGETALL', root .. 'tally')

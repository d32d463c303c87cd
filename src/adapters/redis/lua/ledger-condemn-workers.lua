#!lua flags=allow-oom
-- Closes incarnations by name; with `is_unknown_too` also those that were never opened here, whose opening may be in
-- transit.
-- keys: root
-- args: is_unknown_too, workers, death
-- bound: the incarnations given, which one look has found
-- returns: the server's milliseconds, the incarnations closed, how each ended
local root, death = KEYS[1], ARGV[3]
-- include: now
-- include: ledger-close
return close(cmsgpack.unpack(ARGV[2]), function() return death end, ARGV[1] == '1')

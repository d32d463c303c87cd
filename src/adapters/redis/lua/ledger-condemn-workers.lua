#!lua flags=allow-oom
-- Closes incarnations by name; if told so also those that were never opened here, whose opening may be on its way.
-- keys: root
-- args: is_unknown_too, workers
-- returns: the server's milliseconds, the incarnations closed
local root = KEYS[1]
-- include: now
-- include: ledger-close
return close(cmsgpack.unpack(ARGV[2]), ARGV[1] == '1')

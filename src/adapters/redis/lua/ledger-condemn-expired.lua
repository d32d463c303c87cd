#!lua flags=allow-oom
-- Closes incarnations whose deadline passed.
-- keys: root
-- args: none
-- bound: 500 incarnations
-- returns: the server's milliseconds, the incarnations closed
local root = KEYS[1]
-- include: now
-- include: ledger-close
local MOST = 500
return close(redis.call('ZRANGEBYSCORE', root .. 'leases', '-inf', '(' .. string.format('%.0f', now_ms), 'LIMIT', 0, MOST))

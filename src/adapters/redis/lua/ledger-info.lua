#!lua flags=no-writes
-- INFO of the server that has these keys.
-- keys: root
-- args: none
-- bound: three INFOs
-- returns: the text of INFO
local _ = KEYS[1]
return redis.call('INFO', 'server') .. redis.call('INFO', 'memory') .. redis.call('INFO', 'persistence')

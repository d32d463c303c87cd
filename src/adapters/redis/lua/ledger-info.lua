#!lua flags=no-writes
-- What the server that has these keys says of itself.
-- keys: root
-- args: none
-- returns: the text of INFO
local _ = KEYS[1]
return redis.call('INFO', 'server') .. redis.call('INFO', 'memory') .. redis.call('INFO', 'persistence')

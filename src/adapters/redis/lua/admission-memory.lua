#!lua flags=no-writes
-- How full the server is that has this key.
-- keys: any
-- args: none
-- returns: the text of INFO memory
local _ = KEYS[1]
return redis.call('INFO', 'memory')

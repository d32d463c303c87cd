#!lua flags=no-writes
-- How full the server with this key is.
-- keys: any
-- args: none
-- bound: one INFO
-- returns: the text of INFO memory
local _ = KEYS[1]
return redis.call('INFO', 'memory')

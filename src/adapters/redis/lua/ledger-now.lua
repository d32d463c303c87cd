#!lua flags=no-writes
-- The clock of the server that has these keys.
-- keys: root
-- args: none
-- bound: one clock
-- returns: milliseconds
local _ = KEYS[1]
-- include: now
return now_ms

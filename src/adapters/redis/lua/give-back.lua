#!lua flags=allow-oom
-- Puts elements held by a consumer back at the heads of their lists. A missing tag was acknowledged, given back or put
-- back before, and changes nothing.
-- keys: first, second, third, last, held
-- args: tags...
-- bound: the tags given, up to 500
-- returns: how many went back
-- include: put-back
return put_back(KEYS[5], ARGV, { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, #ARGV)

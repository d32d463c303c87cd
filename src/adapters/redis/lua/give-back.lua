#!lua flags=allow-oom
-- Puts elements that a consumer holds back to the heads of their lists. A tag that is not there was acknowledged, given
-- back or put back before, and changes nothing.
-- keys: first, second, third, last, held
-- args: tags...
-- returns: how many went back
-- include: put-back
return put_back(KEYS[5], ARGV, { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }, #ARGV)

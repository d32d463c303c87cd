#!lua flags=allow-oom
-- Adds the minutes of one objective to their hours when no window needs them any more, and forgets hours that are older than
-- every window, and counts so far ahead that the clock was wrong. The totals have all of them.
-- keys: root
-- args: name
-- bound: one objective: four counts for each of some 500 minutes and hours
-- returns: 1
local root, name = KEYS[1], ARGV[1]
-- include: now
local HOUR_MS, MINUTES_KEPT_MS, BUCKETS_KEPT_MS, MOST_AHEAD_MS = 3600000, LAYOUT_MINUTES_KEPT_MS, LAYOUT_BUCKETS_KEPT_MS, LAYOUT_MOST_AHEAD_MS
local key = root .. 'slo:' .. name
local this_hour = now_ms - now_ms % HOUR_MS
local all = redis.call('HGETALL', key)
for place = 1, #all, 2 do
  local figure, start = string.match(all[place], '^(%l+):(%d+)$')
  local start_ms = tonumber(start or 0)
  local hour = start_ms - start_ms % HOUR_MS
  if start_ms > now_ms + MOST_AHEAD_MS or hour < this_hour - BUCKETS_KEPT_MS then
    redis.call('HDEL', key, all[place])
  elseif hour < this_hour - MINUTES_KEPT_MS and start_ms ~= hour then
    redis.call('HDEL', key, all[place])
    redis.call('HINCRBY', key, figure .. ':' .. string.format('%.0f', hour), all[place + 1])
  end
end
return 1

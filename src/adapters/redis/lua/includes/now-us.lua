-- The server's clock is the only one ever compared. Whole numbers up to 2^53 are exact.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]

local function digits(number) return string.format('%.0f', number) end

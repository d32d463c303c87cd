#!lua flags=allow-oom
-- Returns this server's identity, and stores the generation that was settled for it.
--
-- The identity is its replication id, which every start and every failover changes, and a mark, which is lost with the
-- data. A generation settled for the current identity is valid; it never falls.
-- keys: root
-- args: new_mark, shown, generation
-- bound: one INFO
-- returns: what is shown now, the generation or '', 1 when it was settled for what is shown, the server's seconds
local root = KEYS[1]
local new_mark, shown, generation = ARGV[1], ARGV[2], tonumber(ARGV[3])
local meta = root .. 'meta'
-- include: replication-id
local history = replication_id()
redis.call('HSETNX', meta, 'mark', new_mark)
local now_shown = history .. '/' .. redis.call('HGET', meta, 'mark')
local stored = tonumber(redis.call('HGET', meta, 'generation') or '')
if generation and shown == now_shown then
  stored = math.max(stored or 0, generation)
  redis.call('HSET', meta, 'generation', string.format('%.0f', stored), 'replication_id', history)
end
local is_settled = stored and redis.call('HGET', meta, 'replication_id') == history
local stored_text = stored and string.format('%.0f', stored) or ''
return { now_shown, stored_text, is_settled and 1 or 0, tonumber(redis.call('TIME')[1]) }

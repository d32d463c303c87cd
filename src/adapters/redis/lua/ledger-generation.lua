#!lua flags=allow-oom
-- Tells what this server shows of its identity, and keeps the generation that was settled for it.
--
-- It shows its run id, which every start and every failover changes, and a mark, which is lost with the data. A
-- generation that was settled for what is still shown holds; it never falls.
-- keys: root
-- args: new_mark, shown, generation
-- returns: what is shown now, the generation or '', 1 when it was settled for what is shown, the server's seconds
local root = KEYS[1]
local new_mark, shown, generation = ARGV[1], ARGV[2], tonumber(ARGV[3])
local meta = root .. 'meta'
-- include: run-id
local run_id = run_id_of_server()
redis.call('HSETNX', meta, 'mark', new_mark)
local now_shown = run_id .. '/' .. redis.call('HGET', meta, 'mark')
local stored = tonumber(redis.call('HGET', meta, 'generation') or '')
if generation and shown == now_shown then
  stored = math.max(stored or 0, generation)
  redis.call('HSET', meta, 'generation', string.format('%.0f', stored), 'run_id', run_id)
end
local is_settled = stored and redis.call('HGET', meta, 'run_id') == run_id
local stored_text = stored and string.format('%.0f', stored) or ''
return { now_shown, stored_text, is_settled and 1 or 0, tonumber(redis.call('TIME')[1]) }

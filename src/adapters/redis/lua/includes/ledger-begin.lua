-- Who asks, under which generation, and what was handed out.
local BEGUN, HELD, DONE, EXPIRED, CONFLICT, BEGUN_NEW = 1, 2, 3, 4, 5, 6
local handed, running_fields, fresh = {}, {}, {}
local of_messages, of_waiting, expired = {}, {}, {}
local budgets

-- Unless a generation was settled for this very server and its data, the data may be new, or an older copy of what they
-- were, and epochs could be given out a second time. A caller that cannot know which server it will reach says nothing.
local meta = redis.call('HMGET', root .. 'meta', 'generation', 'run_id')
local function is_settled()
  local shown = run_id == '' and run_id_of_server() or run_id
  return meta[1] and meta[2] == shown and tonumber(meta[1]) >= known_generation
end

local function may_run(record)
  return suspects > 0 or not is_suspect(record)
end

local function hand(id, record)
  if not handed[id] then
    handed[id] = true
    if is_suspect(record) then suspects = suspects - 1 end
    return true
  end
end

local function checkpoint_of(id, record)
  return record[CHECKPOINT_EPOCH] > 0 and redis.call('GET', root .. 'c:' .. id)
end

-- A task that its results outlived is begun again by a late copy of its message: what is said of its end stays.
local FINISHED = { SUCCESS = true, FAILURE = true, REVOKED = true }
local is_start_told = started ~= '' and celery_keep_ms > 0
local function tell_celery_started(id, record)
  local said = redis.call('GETRANGE', 'celery-task-meta-' .. id, 0, 40)
  if not FINISHED[string.match(said, '^{"status": "(%u+)"')] then tell_celery(id, record, 'STARTED', started, 'null') end
end

local function new_epoch()
  return tonumber(meta[1]) * 2 ^ 20 + 1
end

local function budget_of(name)
  budgets = budgets or cmsgpack.unpack(packed_budgets)
  return budgets[name] or budgets['*'] or 0
end

local function run_now(id, record)
  record[STATE], record[RUN], record[OWNER] = 'r', run, worker
  record[EPOCH] = math.max(record[EPOCH] + 1, new_epoch())
  record[BUDGET] = budget_of(record[NAME])
  note(record, 'b', worker)
  running_fields[#running_fields + 1] = id
  running_fields[#running_fields + 1] = digits(record[EPOCH]) .. ' ' .. run
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) + 1
  if is_start_told then tell_celery_started(id, record) end
  write(id, record)
end

local function expire(id, record)
  tell_celery_revoked(id, record, 'expired')
  note(record, 'e')
  finish(id, record, 'c', 'expired', DAY_MS)
  write(id, record)
end

local function is_over(record)
  return record[EXPIRES] and record[EXPIRES] <= now_ms
end

local function is_mine(record)
  return record[STATE] == 'r' and record[OWNER] == worker and record[RUN] == run
end

-- The caller has the bytes of its messages: it is told the rest.
local function hand_message(place, id, record)
  if hand(id, record) then
    of_messages[#of_messages + 1] = {
      place, record[EPOCH], record[FAILURES], record[CRASHES], is_suspect(record) and 1 or 0,
      record[CHECKPOINT_SEQ], checkpoint_of(id, record),
    }
  end
  return BEGUN
end

local function hand_waiting(id, record)
  if hand(id, record) then
    local body = record[BODY] == false and redis.call('GET', root .. 'b:' .. id)
    of_waiting[#of_waiting + 1] = { id, cmsgpack.pack(record), body, checkpoint_of(id, record) }
  end
end

-- Messages come as lists that have a place for each of them: ids, the number of its kind, and the places DIGEST to BODY
-- of its record as they are packed there; when it expires, and its body where that is too long for a record. Those of
-- which no message has anything are empty. A kind is: name, queue, and its places NAME to VERSION.
local kinds, ids, keys, kind_of, parts_of, expires_of, body_of

-- The places DIGEST to BODY, in the order of a record.
local function read_parts(place)
  return cmsgpack.unpack('\149' .. parts_of[place])
end

local function read_message(place)
  local message = { ids[place] }
  for _, part in ipairs(cmsgpack.unpack('\148' .. kinds[kind_of[place]][3])) do message[#message + 1] = part end
  for _, part in ipairs(read_parts(place)) do message[#message + 1] = part end
  message[10] = message[10] or body_of[place]
  return message
end

local function answer_known(place, id, record)
  -- A tombstone without bytes was left for whatever comes under this id.
  if record[DIGEST] == '' then
    come_cancelled(id, record, read_message(place))
    return HELD
  end
  if record[DIGEST] ~= read_parts(place)[1] then return CONFLICT end
  if is_mine(record) then return hand_message(place, id, record) end
  if record[STATE] == 'd' then return DONE end
  if record[ENDING] == 'expired' then return EXPIRED end
  if record[STATE] ~= 'w' then return HELD end
  if is_over(record) then
    leave(id, record)
    expire(id, record)
    return EXPIRED
  end
  if record[DUE] > now_ms or not may_run(record) then return HELD end
  leave(id, record)
  run_now(id, record)
  return hand_message(place, id, record)
end

-- The records of new tasks differ in their parts and number; all else is packed once, or once for a kind.
local packed
local function pack_around()
  local line = 'b' .. now_text .. ' ' .. digits(new_epoch()) .. ' ' .. worker .. '\n'
  packed = {
    head = RECORD_HEAD .. pack_places('r', new_epoch(), run, worker, ''),
    tail = pack_places(now_ms, line, 0, 0, 0, '', 0, '', '', false, 0),
    running = digits(new_epoch()) .. ' ' .. run,
    heads = {},
    budgets = {},
  }
end

local function pack_kind(kind)
  local name, _, places = unpack(kinds[kind])
  packed.heads[kind] = packed.head .. places
  packed.budgets[kind] = pack_places(0, 0, budget_of(name), now_ms)
end

-- Most messages are these: no record knows them, and they are begun at once.
local function begin_new(place, id)
  local kind = kind_of[place]
  if not packed then pack_around() end
  if not packed.heads[kind] then pack_kind(kind) end
  plan_new(id, keys[place], packed.heads[kind] .. parts_of[place] .. packed.budgets[kind] .. cmsgpack.pack(take_seq(#ids)) .. packed.tail,
    body_of[place])
  running_fields[#running_fields + 1] = id
  running_fields[#running_fields + 1] = packed.running
  local queue = kinds[kind][2]
  moved[queue] = (moved[queue] or 0) + 1
  fresh[id] = place
  if is_start_told then tell_celery_started(id, { [OPTIONS] = read_parts(place)[4] }) end
  return BEGUN_NEW
end

local function answer(place)
  local id = ids[place]
  local record = records[id]
  if record then return answer_known(place, id, record) end
  -- A second copy in the same call.
  if fresh[id] then return read_parts(fresh[id])[1] == read_parts(place)[1] and BEGUN or CONFLICT end
  local expires = expires_of[place]
  if not expires or expires > now_ms then return begin_new(place, id) end
  expire(id, new_record(read_message(place), take_seq(#ids)))
  return EXPIRED
end

-- What this very call was given before its reply was lost; then it is given nothing else. Who asks for the first time says
-- so: this looks at all that its worker has.
local function take_again()
  local taken = {}
  for _, value in ipairs(redis.call('HVALS', root .. 'r:' .. worker)) do
    if string.sub(value, -#run - 1) == ' ' .. run then
      local all = redis.call('HGETALL', root .. 'r:' .. worker)
      for place = 1, #all, 2 do
        if string.sub(all[place + 1], -#run - 1) == ' ' .. run then taken[#taken + 1] = all[place] end
      end
      break
    end
  end
  if #taken == 0 then return false end
  read(taken)
  local is_message = {}
  for _, id in ipairs(ids) do is_message[id] = true end
  for _, id in ipairs(taken) do
    local record = records[id]
    if record and is_mine(record) and not is_message[id] then hand_waiting(id, record) end
  end
  return true
end

-- Those whose time has come stand among the ready ones, by urgency.
local function promote(queue, suspected)
  local later, ready = waiting_set(queue, suspected, true), waiting_set(queue, suspected, false)
  local due = redis.call('ZRANGEBYSCORE', later, '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, 1000)
  if #due == 0 then return end
  local adding, removing = {}, {}
  for place = 1, #due, 2 do
    adding[place] = digits(tonumber(string.sub(due[place], 1, 1)) * URGENCY + due[place + 1])
    adding[place + 1] = due[place]
    removing[#removing + 1] = due[place]
  end
  -- At once: what follows looks for them there. Nothing is lost between the two, and they are due whatever comes.
  redis.call('ZADD', ready, unpack(adding))
  redis.call('ZREM', later, unpack(removing))
end

local function hand_out(queue, suspected, most)
  promote(queue, suspected)
  local set, given, from = waiting_set(queue, suspected, false), 0, 0
  while given < most do
    local members = redis.call('ZRANGE', set, from, from + most - given - 1)
    if #members == 0 then return given end
    from = from + #members
    local ids = {}
    for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
    read(ids)
    plan('ZREM', set, unpack(members))
    for _, id in ipairs(ids) do
      local record = records[id]
      if record and record[STATE] == 'w' and is_over(record) then
        expired[#expired + 1] = { id, record[NAME], record[QUEUE] }
        expire(id, record)
      elseif record and record[STATE] == 'w' then
        run_now(id, record)
        hand_waiting(id, record)
        given = given + 1
      end
    end
  end
  return given
end

local function next_due(queues)
  local next
  local function look(queue, suspected)
    if redis.call('EXISTS', waiting_set(queue, suspected, false)) == 1 then next = 0 end
    local first = redis.call('ZRANGE', waiting_set(queue, suspected, true), 0, 0, 'WITHSCORES')
    if #first > 0 then next = math.min(next or math.huge, math.max(0, first[2] - now_ms)) end
  end
  for _, queue in ipairs(queues) do
    look(queue, false)
    -- A suspect that may not run here would say "now" for ever, and its worker would ask without a pause.
    if suspects > 0 then look(queue, true) end
  end
  return next
end

-- Where the broker keeps its elements here too, it need not be told: from here on the ledger has these tasks. One that
-- stands in the way of another with its id is answered by whoever buries it.
local function let_elements_go(answers, tags, held_keys)
  for _, pair in ipairs(held_keys) do
    local going = {}
    for place, tag in ipairs(tags) do
      if kinds[kind_of[place]][2] == pair[1] and answers[place] ~= CONFLICT then going[#going + 1] = tag end
    end
    if #going > 0 then plan('HDEL', pair[2], unpack(going)) end
  end
end

local function begin(queues, messages, held_keys)
  if not redis.call('ZSCORE', root .. 'leases', worker) then return { 'closed' } end
  if not is_settled() then return { 'unsettled' } end
  local tags
  kinds, ids, kind_of, parts_of, expires_of, body_of, tags = unpack(messages)
  local answers = {}
  local is_repeat = is_first == '' and take_again()
  keys = read(ids)
  for place in ipairs(ids) do answers[place] = answer(place) end
  if not is_repeat then
    local left = limit
    for _, queue in ipairs(queues) do
      if left > 0 and suspects > 0 then left = left - hand_out(queue, true, math.min(left, suspects)) end
      if left > 0 then left = left - hand_out(queue, false, left) end
    end
  end
  let_elements_go(answers, tags, held_keys)
  if #running_fields > 0 then plan('HSET', root .. 'r:' .. worker, unpack(running_fields)) end
  flush()
  local next = #running_fields + #of_messages == 0 and next_due(queues) or false
  return { 'open', answers, of_messages, of_waiting, expired, next, new_epoch(), now_ms }
end

-- A call checks at most this many waiting tasks beyond those it hands out, and stops handing out at this many bytes:
-- thousands that expire together, or are large, take several calls, and the server serves other clients in between.
local MOST_EXPIRED, MOST_BYTES = 500, 8388608

-- The caller, its generation, and what was handed out.
-- include: begin-answers
local handed, running_fields, fresh = {}, {}, {}
local of_messages, of_waiting, expired, refused = {}, {}, {}, {}
local looked, handed_bytes = 0, 0
local budgets
-- Names with the highest versions that the worker can run; false: everything.
local runnable = packed_runnable ~= '' and cmsgpack.unpack(packed_runnable)
-- A worker sets aside at most this many tasks it cannot run in one call.
local MOST_REFUSED = 1000

-- Unless a generation was settled for this very server and its data, the data may be new, or an older copy, and epochs
-- could be given out twice. The script asks the server it runs on: what the caller knows may be about the previous
-- server, if it waited for a new connection.
local meta = redis.call('HMGET', root .. 'meta', 'generation', 'replication_id')
local function is_settled()
  return meta[1] and meta[2] == replication_id() and tonumber(meta[1]) >= known_generation
end

local function may_run(record)
  return suspects > 0 or not is_suspect(record)
end

local function can_run(record)
  return not runnable or record[VERSION] <= (runnable[record[NAME]] or -1)
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

-- A late copy of a message may begin a task again whose record has expired before its results: the stored outcome stays.
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
  record[STATE], record[RUN], record[OWNER] = STATE_RUNNING, run, worker
  record[EPOCH] = math.max(record[EPOCH] + 1, new_epoch())
  record[BUDGET] = budget_of(record[NAME])
  note(record, STEP_BEGUN, worker)
  running_fields[#running_fields + 1] = id
  running_fields[#running_fields + 1] = digits(record[EPOCH]) .. ' ' .. run
  moved[record[QUEUE]] = (moved[record[QUEUE]] or 0) + 1
  if is_start_told then tell_celery_started(id, record) end
  write(id, record)
end

local function expire(id, record)
  tell_celery_revoked(id, record, 'expired')
  note(record, STEP_EXPIRED)
  finish(id, record, STATE_CANCELLED, 'expired', DAY_MS)
  write(id, record)
end

local function is_over(record)
  return record[EXPIRES] and record[EXPIRES] <= now_ms
end

local function is_mine(record)
  return record[STATE] == STATE_RUNNING and record[OWNER] == worker and record[RUN] == run
end

-- The caller has the bytes of its messages: return only the rest.
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
    local packed_record, checkpoint = cmsgpack.pack(record), checkpoint_of(id, record)
    of_waiting[#of_waiting + 1] = { id, packed_record, body, checkpoint }
    handed_bytes = handed_bytes + #packed_record + #(body or '') + #(checkpoint or '')
  end
end

-- Messages come as parallel lists: ids, the number of the kind, and the packed members DIGEST to BODY of the record; the
-- expiry, the body if it is too long for a record, and the eta. A list without any value is empty. A kind is: name,
-- queue, and the members NAME to VERSION.
local kinds, ids, keys, kind_of, parts_of, expires_of, body_of, eta_of

-- The members DIGEST to BODY, in the order of a record.
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
  -- A tombstone without bytes was left for any message with this id.
  if record[DIGEST] == '' then
    come_cancelled(id, record, read_message(place))
    return HELD
  end
  if record[DIGEST] ~= read_parts(place)[1] then return CONFLICT end
  if is_mine(record) then return hand_message(place, id, record) end
  if record[STATE] == STATE_DONE then return DONE end
  if record[ENDING] == 'expired' then return EXPIRED end
  if record[STATE] ~= STATE_WAITING then return HELD end
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

-- The records of new tasks differ in their parts and number; the rest is packed once, or once per kind.
local packed
local function pack_around()
  local line = STEP_BEGUN .. now_text .. ' ' .. digits(new_epoch()) .. ' ' .. worker .. '\n'
  packed = {
    head = RECORD_HEAD .. pack_places(STATE_RUNNING, new_epoch(), run, worker, ''),
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

-- The common case: a message without a record, begun at once.
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

-- A message that came before its eta waits here: only the server's clock decides when it is due.
local function keep_for_later(place, id, eta)
  local record = new_record(read_message(place), take_seq(#ids))
  note(record, STEP_ARRIVED)
  wait(id, record, eta - now_ms)
  write(id, record)
  return HELD
end

local function answer(place)
  local id = ids[place]
  local record = records[id]
  if record then
    local is_copy = record[DIGEST] == read_parts(place)[1]
    local known = answer_known(place, id, record)
    if is_copy and (known == HELD or known == DONE) then tally(record[NAME], record[QUEUE], 'duplicates', 1) end
    return known
  end
  -- A second copy in the same call.
  if fresh[id] then return read_parts(fresh[id])[1] == read_parts(place)[1] and BEGUN or CONFLICT end
  local expires, eta = expires_of[place], eta_of[place]
  if expires and expires <= now_ms then
    expire(id, new_record(read_message(place), take_seq(#ids)))
    return EXPIRED
  end
  if eta and eta > now_ms then return keep_for_later(place, id, eta) end
  return begin_new(place, id)
end

-- What this same call got before its reply was lost; then it gets nothing else. A first call is marked as such, because
-- this reads everything its worker has.
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

-- Moves tasks that are due to the ready ones, by urgency.
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
  -- At once: the code below looks for them there. Nothing is lost in between, and they are due in any case.
  redis.call('ZADD', ready, unpack(adding))
  redis.call('ZREM', later, unpack(removing))
end

local function may_hand_more()
  return looked < MOST_EXPIRED and #refused < MOST_REFUSED and handed_bytes < MOST_BYTES
end

local function hand_one(id, record)
  if not record or record[STATE] ~= STATE_WAITING then
    -- A key of another type reads as missing: it is isolated like an unreadable record.
    if not record and redis.call('EXISTS', root .. 't:' .. id) == 1 then error('the record of a task is no string') end
    looked = looked + 1
    return 0
  end
  if is_over(record) then
    looked = looked + 1
    expired[#expired + 1] = { id, record[NAME], record[QUEUE] }
    expire(id, record)
    return 0
  end
  if not can_run(record) then
    refused[#refused + 1] = { id, record[NAME], record[QUEUE] }
    set_aside(id, record, worker)
    write(id, record)
    return 0
  end
  run_now(id, record)
  hand_waiting(id, record)
  return 1
end

local function hand_out(queue, suspected, most)
  promote(queue, suspected)
  local set, given, from = waiting_set(queue, suspected, false), 0, 0
  while given < most and may_hand_more() do
    -- Behind many that it cannot run there may be some that it can: it looks further with every step.
    local members = redis.call('ZRANGE', set, from, from + math.max(most - given, math.min(#refused, 100)) - 1)
    if #members == 0 then return given end
    from = from + #members
    local ids, going = {}, {}
    for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
    read(ids)
    for place, id in ipairs(ids) do
      if given >= most or not may_hand_more() then break end
      given = given + hand_one(id, records[id])
      going[place] = members[place]
    end
    plan('ZREM', set, unpack(going))
  end
  return given
end

-- Tasks that other workers have set aside and this worker can run; of each name, those due for longest.
local function hand_out_aside(queue, most)
  local given = 0
  if not runnable or redis.call('EXISTS', root .. 'aside-queue:' .. queue) == 0 then return 0 end
  for name in pairs(runnable) do
    if given >= most or not may_hand_more() then return given end
    -- Suspects that may not run now must not block the others.
    local ids = redis.call('ZRANGEBYSCORE', aside_set(queue, name), '-inf', now_ms, 'LIMIT', 0, most - given + 100)
    read(ids)
    for _, id in ipairs(ids) do
      local record = records[id]
      if given >= most then break end
      if not record or record[STATE] ~= STATE_WAITING then
        plan('ZREM', aside_set(queue, name), id)
      elseif can_run(record) and may_run(record) then
        leave_aside(id, record)
        given = given + hand_one(id, record)
      end
    end
  end
  return given
end

-- A worker that may not run a suspect now still sets aside those it cannot run: otherwise their waiting time is not
-- counted.
local function set_suspects_aside(queue)
  if not runnable then return end
  promote(queue, true)
  local set = waiting_set(queue, true, false)
  local ids, members = {}, redis.call('ZRANGE', set, 0, 99)
  for place, member in ipairs(members) do ids[place] = string.sub(member, 12) end
  read(ids)
  for place, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == STATE_WAITING and not can_run(record) then
      plan('ZREM', set, members[place])
      hand_one(id, record)
    end
  end
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
    -- A suspect that may not run here would always be due "now", and its worker would ask without a pause.
    if suspects > 0 then look(queue, true) end
  end
  return next
end

-- If the broker holds its elements on this server too, they are released here: from now on the ledger has these tasks.
-- An element that conflicts with another of its id is answered when it is buried.
local function let_elements_go(answers, tags, held_keys)
  for _, pair in ipairs(held_keys) do
    local going = {}
    for place, tag in ipairs(tags) do
      if kinds[kind_of[place]][2] == pair[1] and answers[place] ~= CONFLICT then going[#going + 1] = tag end
    end
    in_slices(going, function(first, last) plan('HDEL', pair[2], unpack(going, first, last)) end)
  end
end

local function begin(queues, messages, held_keys)
  if not redis.call('ZSCORE', root .. 'leases', worker) then return { 'closed' } end
  if not is_settled() then return { 'unsettled' } end
  local tags
  kinds, ids, kind_of, parts_of, expires_of, body_of, tags, eta_of = unpack(messages)
  local answers = {}
  local is_repeat = is_first == '' and take_again()
  keys = read(ids)
  for place in ipairs(ids) do answers[place] = answer(place) end
  if not is_repeat then
    local left = limit
    for _, queue in ipairs(queues) do
      if suspects <= 0 then
        set_suspects_aside(queue)
      elseif left > 0 then
        left = left - hand_out(queue, true, math.min(left, suspects))
      end
      if left > 0 then left = left - hand_out_aside(queue, left) end
      if left > 0 then left = left - hand_out(queue, false, left) end
    end
  end
  let_elements_go(answers, tags, held_keys)
  in_slices(running_fields, function(first, last)
    plan('HSET', root .. 'r:' .. worker, unpack(running_fields, first, last))
  end)
  flush()
  local next = #running_fields + #of_messages == 0 and next_due(queues) or false
  if next and #refused > 0 then next = 0 end
  return { 'open', answers, of_messages, of_waiting, expired, next, new_epoch(), now_ms, refused }
end

#!lua
-- Takes custody of messages: waiting, due after their delay. A record that is there already is left alone; the same id
-- with other bytes is kept as a dead letter under id and digest, so that it neither runs nor vanishes.
-- Refused when memory is full: whoever brings a message still has it.
-- keys: root
-- args: items
-- returns: 1
local root = KEYS[1]
-- include: now
-- include: ledger-record
-- include: ledger-waiting
-- include: ledger-bury-message
local ERROR_OF_OTHER =
  '{"type":"ERR_DIGEST","message":"another task has this id with other bytes","traceback":""}'
-- An item is: the message, the delay in milliseconds, the id it is buried under when it is another's.
local items, ids = cmsgpack.unpack(ARGV[1]), {}
for _, item in ipairs(items) do
  ids[#ids + 1] = item[1][1]
  ids[#ids + 1] = item[3]
end
read(ids)
for _, item in ipairs(items) do
  local message, delay_ms, other_id = item[1], item[2], item[3]
  local id = message[1]
  local found = records[id]
  if not found then
    local record = new_record(message, take_seq(#items * 2))
    note(record, 'a')
    wait(id, record, delay_ms)
    write(id, record)
  elseif found[DIGEST] == '' then
    come_cancelled(id, found, message)
  elseif found[DIGEST] ~= message[6] then
    message[1] = other_id
    bury_message(message, 'ERR_DIGEST', ERROR_OF_OTHER, #items * 2)
  end
end
flush()
return 1

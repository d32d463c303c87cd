-- Keeps a message that can never run as a dead letter, bytes as they came. The same message twice is one letter; a record
-- that is anything else is left alone.
local function bury_message(message, reason, err, most)
  local id = message[1]
  local found = records[id]
  if found then return found[STATE] == 'x' and found[DIGEST] == message[6] and 1 or 2 end
  local record = new_record(message, take_seq(most))
  note(record, 'u', err)
  die(id, record, reason, err)
  write(id, record)
  return 1
end

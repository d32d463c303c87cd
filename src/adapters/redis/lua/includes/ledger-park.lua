local ERROR_OF_OTHER =
  MARK_DIGEST_CONFLICT

-- An item is: the message, the delay in milliseconds or false, the id to bury it under if its id is taken, and the
-- worker that could not run it, or false.
local function park(items)
  local ids = {}
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
      local wait_ms = delay_ms or math.max(0, (message[7] or now_ms) - now_ms)
      if item[4] then
        record[DUE] = now_ms + wait_ms
        set_aside(id, record, item[4])
      else
        note(record, STEP_ARRIVED)
        wait(id, record, wait_ms)
      end
      write(id, record)
    elseif found[DIGEST] == '' then
      come_cancelled(id, found, message)
    elseif found[DIGEST] ~= message[6] then
      message[1] = other_id
      bury_message(message, 'ERR_DIGEST', ERROR_OF_OTHER, #items * 2)
    elseif found[STATE] == STATE_WAITING and found[EPOCH] == 0 and is_aside(id) then
      -- The caller releases its copy: from now on only this record has the task. The copy knows more about refusals.
      found[OPTIONS] = message[9]
      set_aside(id, found, item[4] or redis.call('HGET', root .. 'aside-by', id) or '')
      write(id, found)
    end
  end
  flush()
end

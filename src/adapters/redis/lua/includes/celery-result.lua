-- Outcomes where Python's AsyncResult looks for them, in Celery's format: the value, and a notification for the waiters.
-- Only if enabled, and not for tasks whose results are ignored. These keys are not under the root: a cluster has none of
-- them.
local iso
local function iso_json()
  if iso then return iso end
  local days, ms = math.floor(now_ms / 86400000), now_ms % 86400000
  -- Days since March 1 of year 0, in eras of 400 years.
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = from_march + (from_march < 10 and 3 or -9)
  local seconds = math.floor(ms / 1000)
  iso = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03d000+00:00"', year + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
  return iso
end

-- For these Celery gives no time: they are not finished.
local UNDER_WAY = { STARTED = true, RETRY = true }

local function write_celery(id, status, result, traceback, more, children)
  local key = 'celery-task-meta-' .. id
  local date = UNDER_WAY[status] and 'null' or iso_json()
  -- Without its quotes, which are always written: most ids need no escaping.
  local shown = string.find(id, '^[%w-]+$') and id or string.sub(cjson.encode(id), 2, -2)
  local text = '{"status": "' .. status .. '", "result": ' .. result .. ', "traceback": ' .. traceback
    .. ', "children": ' .. (children or '[]') .. ', "date_done": ' .. date .. ', "task_id": "' .. shown .. '"' .. (more or '') .. '}'
  plan('SET', key, text, 'PXAT', digits(now_ms + celery_keep_ms))
  plan('PUBLISH', key, text)
end

local function tell_celery(id, record, status, result, traceback, children)
  if celery_keep_ms == 0 or string.find(record[OPTIONS], MARK_UNKEPT, 1, true) then return end
  write_celery(id, status, result, traceback, nil, children)
end

local function exception_text(kind, message, module)
  return '{"exc_type": ' .. cjson.encode(kind) .. ', "exc_message": [' .. cjson.encode(message) .. '], "exc_module": "' .. module .. '"}'
end

-- Where Python finds an exception of this name: see python-exceptions.ts.
local function python_exception(kind)
  if not string.find(kind, '^[%w_]+$') then return kind, 'outlast' end
  local module, name = string.match(MARK_PYTHON_EXCEPTIONS, ' ' .. kind .. '=([%w.]+)%.(%w+) ')
  return name or kind, module or 'outlast'
end

local function tell_celery_error(id, record, status, err)
  if celery_keep_ms == 0 then return end
  local is_read, read_error = pcall(cjson.decode, err)
  if not is_read then read_error = { type = 'Error', message = 'see the dead letter', traceback = '' } end
  local traceback = read_error.traceback ~= '' and cjson.encode(read_error.traceback) or 'null'
  local kind, module = python_exception(read_error.type)
  tell_celery(id, record, status, exception_text(kind, read_error.message, module), traceback)
end

local function tell_celery_revoked(id, record, why)
  tell_celery(id, record, 'REVOKED', exception_text('TaskRevokedError', why, 'celery.exceptions'), 'null')
end

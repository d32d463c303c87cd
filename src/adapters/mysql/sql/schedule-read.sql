-- One schedule.
-- params: name text
select name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms, last_task, fired, missed, error,
  declared_until_ms, disputed_until_ms
from outlast_schedule where name = $1

-- One schedule.
-- params: name text
select name, version, origin, paused, definition, digest, seal, next_slot_ms::text, due_ms::text, last_slot_ms::text, last_task, fired::text,
  missed::text, error, declared_until_ms::text, disputed_until_ms::text
from outlast_schedule where name = $1

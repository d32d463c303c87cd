-- Schedules whose time has come, the longest due first. It locks nothing: a scheduler that sees one changes it by `schedule-lock`, which
-- compares the version. One of a configuration counts only while a running process vouches for it.
-- params: limit int
select name, version, origin, paused, definition, digest, seal, next_slot_ms::text, due_ms::text, last_slot_ms::text, last_task, fired::text,
  missed::text, error, declared_until_ms::text, disputed_until_ms::text
from outlast_schedule
where not paused and due_ms <= (select (extract(epoch from clock_timestamp()) * 1000)::bigint)
  and (declared_until_ms is null or declared_until_ms > (select (extract(epoch from clock_timestamp()) * 1000)::bigint))
order by due_ms, name
limit $1

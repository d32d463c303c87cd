-- Schedules whose time has come, the longest due first. It locks nothing: a scheduler that sees one changes it by `schedule-lock`, which
-- compares the version. One of a configuration counts only while a running process vouches for it.
-- params: limit int
select name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms, last_task, fired, missed, error,
  declared_until_ms, disputed_until_ms
from outlast_schedule
where paused = false and due_ms <= (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000)
  and (declared_until_ms is null or declared_until_ms > (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000))
order by due_ms, name
limit $1

-- The clock of the database, and when the next schedule is due.
-- params: none
select cast((timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) as char) as now_ms,
  (select min(due_ms) from outlast_schedule
   where paused = false and (declared_until_ms is null or declared_until_ms > (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000))) as due_ms

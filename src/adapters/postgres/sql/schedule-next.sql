-- The clock of the database, and when the next schedule is due.
-- params: none
select (select (extract(epoch from clock_timestamp()) * 1000)::bigint)::text as now_ms,
  (select min(due_ms) from outlast_schedule
   where not paused and (declared_until_ms is null or declared_until_ms > (select (extract(epoch from clock_timestamp()) * 1000)::bigint)))::text as due_ms

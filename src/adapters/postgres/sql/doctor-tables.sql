-- The tables that change most, because every task is written to and removed from them: without vacuum they grow for ever. Their settings for autovacuum, and how many of their rows are dead.
-- params: none
select c.relname as name, coalesce(array_to_string(c.reloptions, ','), '') as options, pg_total_relation_size(c.oid)::text as bytes,
  coalesce(s.n_live_tup, 0)::text as live, coalesce(s.n_dead_tup, 0)::text as dead,
  to_char(greatest(s.last_autovacuum, s.last_vacuum) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as vacuumed
from (values ('outlast_outbox'), ('outlast_task'), ('outlast_worker'), ('outlast_relay')) as t(name)
join pg_class c on c.oid = to_regclass(t.name)
left join pg_stat_user_tables s on s.relid = c.oid
order by c.relname

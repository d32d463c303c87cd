-- Whether the mark is visible here, and which table is the outbox. Also asked of the marked transaction itself: if that has
-- ended meanwhile, the mark is gone. A standby shows no locks of its primary.
-- params: key text
select to_regclass('outlast_outbox')::oid::text as outbox, case when pg_is_in_recovery() then 'yes' else 'no' end as is_standby,
  case when exists (
    select 1 from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = $1::text::bigint
  ) then 'yes' else 'no' end as is_marked

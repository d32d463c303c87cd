-- What keeps vacuum from removing dead rows of this database, oldest first: open transactions, prepared ones, replication
-- slots. The text of a statement may hold secrets and is not read.
-- params: min_age_ms bigint
select * from (
  select 'transaction' as kind, a.pid::text as id, coalesce(a.application_name, '') as application, coalesce(a.usename, '') as who,
    coalesce(a.state, '') as state, to_char(a.query_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as query_started,
    (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint as age_ms
  from pg_stat_activity a
  where a.datname = current_database() and a.pid <> pg_backend_pid() and a.xact_start is not null
    and (a.backend_xmin is not null or a.backend_xid is not null)
  union all
  select 'prepared', p.gid, '', p.owner, 'prepared', null, (extract(epoch from clock_timestamp() - p.prepared) * 1000)::bigint
  from pg_prepared_xacts p where p.database = current_database()
) s where s.age_ms >= $1::bigint order by s.age_ms desc limit 20

-- Version and time of the server.
-- params: none
select current_setting('server_version') as version, current_setting('server_version_num') as number,
  current_setting('autovacuum') as autovacuum, current_setting('track_counts') as track_counts,
  (extract(epoch from clock_timestamp()) * 1000)::bigint::text as now_ms,
  pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_others

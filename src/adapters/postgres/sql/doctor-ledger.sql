-- Work that dead workers and ended tasks left behind and that no process has taken up.
-- params: orphan_ms bigint
select
  (select count(*) from outlast_task t where t.state = 'running' and not exists (
    select 1 from outlast_worker w where w.id = t.owner and w.state = 'open'
      and w.deadline >= clock_timestamp() - $1::bigint * interval '1 millisecond'))::text as orphans,
  (select count(*) from outlast_after where created_at < clock_timestamp() - $1::bigint * interval '1 millisecond')::text as follow_ups

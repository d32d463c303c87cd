-- Work that dead workers and ended tasks left behind and that no process has taken up. Every worker reaps; where none lives, only
-- a resurrector could have done so, and much sooner than the first limit.
-- params: orphan_ms bigint, unreaped_ms bigint
with reaping as (
  select count(*) as workers from outlast_worker where state = 'open' and deadline >= clock_timestamp()
), bound as (
  select clock_timestamp() - case workers when 0 then least($1::bigint, $2::bigint) else $1::bigint end * interval '1 millisecond' as before
  from reaping
)
select
  (select count(*) from outlast_task t where t.state = 'running' and not exists (
    select 1 from outlast_worker w where w.id = t.owner and w.state = 'open'
      and w.deadline >= (select before from bound)))::text as orphans,
  (select count(*) from outlast_after where created_at < (select before from bound))::text as follow_ups,
  (select workers from reaping)::text as workers

-- A task that is stored elsewhere now leaves the ledger, if it is unchanged since it was listed. If it has done steps its
-- fence stays: it holds the epoch, and the steps are deleted with it.
-- params: id text, epoch bigint
with gone as (
  delete from outlast_task where id = $1 and epoch = $2 and state in ('waiting', 'refused', 'dead') returning id, epoch, run
), fence as (
  insert into outlast_fence (task_id, epoch, run, look_at)
  select g.id, g.epoch, coalesce(g.run, ''), clock_timestamp() + interval '1 minute' from gone g
  where exists (select 1 from outlast_step s where s.task_id = g.id)
  on conflict (task_id) do nothing
)
select case
    when exists (select 1 from gone) then 'ok'
    when exists (select 1 from outlast_task where id = $1) then 'stale'
    else 'absent'
  end as status

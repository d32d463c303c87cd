-- Brings back the tasks that closed incarnations were running: waiting, with their old due time, so that they stand in front
-- of later tasks and not behind a backlog; or dead when the crash budget is spent.
-- The closed incarnations are read first, as a list: under a join the recheck after a lock would only see that the task is
-- running, and take it from the worker that began it meanwhile.
-- Locked rows (the server is still closing a door of the dead process) are left for the next pass.
-- An index is about the sum of failures and crashes, which must not overflow: so neither grows beyond half of the largest number.
-- params: limit int
with lost as materialized (
  select t.id, t.owner, (select w.death from outlast_worker w where w.id = t.owner) as death from outlast_task t
  where t.state = 'running' and t.owner = any(array(select id from outlast_worker where state = 'closed'))
  order by t.id limit $1 for update skip locked
), moved as (
  update outlast_task t set
    state = case when t.crashes >= t.crash_budget then 'dead' else 'waiting' end,
    failures = least(t.failures, 1073741822), crashes = least(t.crashes, 1073741822) + 1, owner = null, settled_run = t.run, settled_as = 'reap',
    ending = case when t.crashes >= t.crash_budget then 'dead' end,
    ended_at = case when t.crashes >= t.crash_budget then clock_timestamp() end,
    reason = case when t.crashes >= t.crash_budget then 'ERR_RESURRECTIONS_SPENT' end,
    error = case when t.crashes >= t.crash_budget
      then convert_to(json_build_object('type', 'ERR_RESURRECTIONS_SPENT', 'message', 'its worker died ' || (t.crashes::bigint + 1)
        || ' times' || coalesce('; the last time: ' || (lost.death::json ->> 'message'), ''), 'traceback', '')::text, 'UTF8')
      else t.error end,
    version = case when t.crashes >= t.crash_budget then least(t.version, 2147483646) + 1 else t.version end,
    history = outlast_history(t.history, outlast_line(case when t.crashes >= t.crash_budget then 'dead' else 'reaped' end, t.epoch, t.owner, convert_to(lost.death, 'UTF8')))
  from lost
  where t.id = lost.id and t.state = 'running'
  returning t.id, t.name, t.queue, t.crashes, t.state, lost.owner, lost.death
), note as (select pg_notify('outlast_task', '') from (select 1 from moved limit 1) m
), gone as (
  delete from outlast_worker w
  where w.state = 'closed' and not exists (select 1 from outlast_task t where t.owner = w.id and t.state = 'running')
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, case m.state when 'dead' then 'dead' else 'resurrected' end,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, m.*, (select count(*) from note)::text as notified
from (select 1) one left join moved m on true

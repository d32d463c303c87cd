-- No worker could run it for too long: a task that is still set aside is dead. The epoch grows as if it had been begun:
-- a task that never was counts as a message without follow-ups.
-- params: id text, error bytea
with moved as (
  update outlast_task t set
    state = 'dead', epoch = t.epoch + 1, ending = 'dead', ended_at = clock_timestamp(), reason = 'ERR_TASK_UNKNOWN', error = $2, version = least(t.version, 2147483646) + 1,
    refused_at = null, refused_by = null, history = outlast_history(t.history, outlast_line('buried', t.epoch + 1, t.refused_by, $2))
  where id = $1 and state = 'refused'
  returning id, name, queue
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'dead',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select case
    when exists (select 1 from moved) then 'ok'
    when exists (select 1 from outlast_task where id = $1) then 'stale'
    else 'absent'
  end as status

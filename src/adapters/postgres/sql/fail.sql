-- Ends failed attempts: waiting until the delay is over, or dead if it is null. A crash is counted separately, and the task
-- keeps its position in front of later ones.
-- Rows are looked up as in `commit-plain`.
-- params: ids text[], epochs bigint[], runs text[], errors bytea[], delays_ms bigint[], reasons text[], crashes boolean[]
/* kept plan */
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::boolean[])
    with ordinality as i(id, epoch, run, error, delay_ms, reason, is_crash, place)
), moved as (
  update outlast_task t set
    state = case when i.delay_ms is null then 'dead' else 'waiting' end,
    failures = least(t.failures, 1073741822) + case when i.is_crash then 0 else 1 end,
    crashes = least(t.crashes, 1073741822) + case when i.is_crash then 1 else 0 end,
    owner = null, settled_run = i.run, settled_as = 'fail', error = i.error,
    due = case when i.is_crash then t.due else clock_timestamp() + coalesce(i.delay_ms, 0) * interval '1 millisecond' end,
    ending = case when i.delay_ms is null then 'dead' end,
    ended_at = case when i.delay_ms is null then clock_timestamp() end,
    reason = case when i.delay_ms is null then i.reason end,
    version = case when i.delay_ms is null then least(t.version, 2147483646) + 1 else t.version end,
    history = outlast_history(t.history, outlast_line(case when i.delay_ms is null then 'dead' when i.is_crash then 'crashed' else 'failed' end, t.epoch, t.owner, i.error))
  from item i
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.id, t.run, t.name, t.queue, t.state, i.is_crash
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, f.figure,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  cross join lateral (values (case when not m.is_crash then 'failed' end), (case when m.state = 'dead' then 'dead' when m.is_crash then 'resurrected' else 'retried' end)) as f(figure)
  where f.figure is not null
  group by 1, 2, 3, 4
)
select case
    when m.id is not null then 'ok'
    when t.id is null then 'absent'
    when t.settled_run = i.run and t.settled_as = 'fail' then 'ok'
    else 'stale'
  end as status
from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = any($1::text[]) and t.id = i.id
order by i.place

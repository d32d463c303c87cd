-- Gives runs back; nothing is counted. Due as before, and so in front of later tasks, or after a delay.
-- Rows are looked up as in `commit-plain`.
-- params: ids text[], epochs bigint[], runs text[], delays_ms bigint[]
/* kept plan */
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[])
    with ordinality as i(id, epoch, run, delay_ms, place)
), moved as (
  update outlast_task t set
    state = 'waiting', owner = null, settled_run = i.run, settled_as = 'release',
    due = case when i.delay_ms is null then t.due else clock_timestamp() + i.delay_ms * interval '1 millisecond' end,
    history = outlast_history(t.history, outlast_line('released', t.epoch, t.owner, null))
  from item i
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.id, t.run
), note as (select pg_notify('outlast_task', '') from (select 1 from moved limit 1) m)
select case
    when m.id is not null then 'ok'
    when t.id is null then 'absent'
    when t.settled_run = i.run and t.settled_as = 'release' then 'ok'
    else 'stale'
  end as status, (select count(*) from note)::text as notified
from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = any($1::text[]) and t.id = i.id
order by i.place

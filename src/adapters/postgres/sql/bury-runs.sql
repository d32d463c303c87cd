-- Ends runs as dead letters, without a failed attempt being counted.
-- params: ids text[], epochs bigint[], runs text[], reasons text[], errors bytea[]
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bytea[])
    with ordinality as i(id, epoch, run, reason, error, place)
), moved as (
  update outlast_task t set
    state = 'dead', ending = 'dead', owner = null, settled_run = i.run, settled_as = 'bury', reason = i.reason, error = i.error,
    ended_at = clock_timestamp(), version = least(t.version, 2147483646) + 1,
    history = outlast_history(t.history, outlast_line('buried', t.epoch, t.owner, i.error))
  from item i
  where t.id = i.id and t.state = 'running' and t.epoch = i.epoch and t.run = i.run
  returning t.id, t.run, t.name, t.queue
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'dead',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select case
    when m.id is not null then 'ok'
    when t.id is null then 'absent'
    when t.settled_run = i.run and t.settled_as = 'bury' then 'ok'
    else 'stale'
  end as status
from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = i.id
order by i.place

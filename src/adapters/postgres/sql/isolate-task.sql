-- Ends a waiting task that no worker can begin as a dead letter. Nothing of it is read: that may be what fails.
-- params: id text, error bytea
with moved as (
  update outlast_task t set
    state = 'dead', ending = 'dead', ended_at = clock_timestamp(), reason = 'ERR_UNDECODABLE', error = $2, refused_at = null, refused_by = null,
    version = least(t.version, 2147483646) + 1
  where t.id = $1 and t.state in ('waiting', 'refused')
  returning t.id, t.name, t.queue, t.epoch
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'dead',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name and m.epoch > 0
  group by 1, 2, 3, 4
)
select id, name, queue from moved

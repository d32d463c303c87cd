-- Ends runs as done: result, tombstone and follow-ups in one statement, and only for the run that owns the task.
-- Rows are looked up as in `commit-plain`.
-- It counts them by name and queue, by the minute where the task has an objective, and the runs that it refuses.
-- params: ids text[], epochs bigint[], runs text[], endings text[], results bytea[], errors bytea[], keeps_ms bigint[], after_ids text[], after_runs text[], after_keys text[], after_entries bytea[]
/* kept plan */
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[])
    with ordinality as i(id, epoch, run, ending, result, error, keep_ms, place)
), moved as (
  update outlast_task t set
    state = 'done', ending = i.ending, result = i.result, error = i.error, owner = null, body = '', checkpoint = null,
    settled_run = i.run, settled_as = 'commit', ended_at = clock_timestamp(),
    keep_until = clock_timestamp() + i.keep_ms * interval '1 millisecond',
    history = outlast_history(t.history, outlast_line(i.ending, t.epoch, t.owner, null))
  from item i
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.id, t.run, t.name, t.queue, t.ending, t.ended_at, greatest(t.created_at, case when isfinite(t.eta) then t.eta end) as since
), followed as (
  insert into outlast_after (key, entry)
  select a.key, a.entry
  from unnest($8::text[], $9::text[], $10::text[], $11::bytea[]) as a(id, run, key, entry)
  join moved m on m.id = a.id and m.run = a.run
  on conflict (key) do nothing
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, f.figure,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  cross join lateral (values (m.ending), (case when o.within_ms is not null and m.ending = 'done' and m.ended_at - m.since > o.within_ms * interval '1 millisecond' then 'slow' end)) as f(figure)
  where f.figure is not null
  group by 1, 2, 3, 4
), answer as materialized (
  select i.place, t.name, t.queue, case
      when m.id is not null then 'ok'
      when t.id is null then 'absent'
      when t.settled_run = i.run and t.settled_as = 'commit' then 'ok'
      else 'stale'
    end as status
  from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = any($1::text[]) and t.id = i.id
), refused as (
  insert into outlast_tally (name, queue, figure, at, count)
  select name, queue, 'stale', '-infinity', count(*) from answer where status = 'stale' group by name, queue
)
select status from answer order by place

-- Ends runs without follow-ups as done, one answer for each that it ended. Separate from `commit`, which answers for the
-- others and takes longer to plan. The state is compared in a way that the index of running tasks cannot serve: the planner
-- would read all running tasks there, instead of looking these up by their key. Rows are found by an array of ids, as in `begin-due`.
-- What ended is counted in the same statement, as in `commit`.
-- params: ids text[], epochs bigint[], runs text[], endings text[], results bytea[], errors bytea[], keeps_ms bigint[]
/* kept plan */
with moved as (
  update outlast_task t set
    state = 'done', ending = i.ending, result = i.result, error = i.error, owner = null, body = '', checkpoint = null,
    settled_run = i.run, settled_as = 'commit', ended_at = clock_timestamp(),
    keep_until = clock_timestamp() + i.keep_ms * interval '1 millisecond',
    history = outlast_history(t.history, outlast_line(i.ending, t.epoch, t.owner, null))
  from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[])
    as i(id, epoch, run, ending, result, error, keep_ms)
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.name, t.queue, t.ending, t.ended_at, greatest(t.created_at, case when isfinite(t.eta) then t.eta end) as since
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, f.figure,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  cross join lateral (values (m.ending), (case when o.within_ms is not null and m.ending = 'done' and m.ended_at - m.since > o.within_ms * interval '1 millisecond' then 'slow' end)) as f(figure)
  where f.figure is not null
  group by 1, 2, 3, 4
)
select 'ok' as status from moved

-- Leaves a tombstone for a task, whether or not it has arrived, and takes it out of the outbox of the same database.
-- It also runs in a transaction of the user, for a task that was sent in it: so parameters are texts.
-- params: id text, keep_ms text
with gone as (
  delete from outlast_outbox where task_id = $1::text
  returning task_name, queue, payload_version, digest, options, '\x5b'::bytea || args || '\x2c'::bytea || kwargs || '\x2c'::bytea || embed || '\x5d'::bytea as body
), kept as (
  -- Bytes are kept only if something follows the task: its chord and its sender must learn that it was cancelled.
  select * from gone where outlast_follows(body, options)
), tomb as (
  insert into outlast_task as t (id, name, queue, priority, payload_version, digest, body, options, state, ending, ended_at, keep_until, history)
  select $1::text, coalesce((select task_name from gone), 'unknown'), coalesce((select queue from gone), 'default'), 0,
    -- With the digest: bytes other than those that were sent have no follow-ups.
    coalesce((select payload_version from kept), 1), (select digest from kept),
    coalesce((select body from kept), ''), coalesce((select options from kept), '{}'),
    'cancelled', 'cancelled', clock_timestamp(), clock_timestamp() + $2::text::bigint * interval '1 millisecond', outlast_line('cancelled', 0, null, null)
  on conflict (id) do update set
    state = 'cancelled', ending = 'cancelled', owner = null, ended_at = clock_timestamp(),
    -- A run that was settled before keeps its answer; only a run that loses its task now is marked.
    settled_run = case when t.state = 'running' then t.run else t.settled_run end,
    settled_as = case when t.state = 'running' then 'cancel' else t.settled_as end, keep_until = excluded.keep_until, body = '',
    history = outlast_history(t.history, outlast_line('cancelled', t.epoch, t.owner, null))
  where t.state in ('waiting', 'refused', 'running')
  returning t.id, t.name, t.queue
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'cancelled',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from tomb m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select case
    when exists (select 1 from tomb) then 'ok'
    when exists (select 1 from outlast_task where id = $1::text and state = 'cancelled') then 'ok'
    else 'terminal'
  end as status

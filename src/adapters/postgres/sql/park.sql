-- Takes custody of messages: waiting, due after their delay, or at their eta if it is null; set aside if a worker has
-- refused them. An existing record is left alone; the same id with other bytes is kept as a dead letter under id and
-- digest. Returns what is accounted for: a message whose id another session is just inserting is not, and the caller must
-- ask again.
-- params: ids text[], names text[], queues text[], priorities int[], versions int[], bodies bytea[], options bytea[], digests text[], etas bigint[], expires bigint[], delays_ms bigint[], refusers text[]
with msg as (
  select * from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[])
    with ordinality as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, delay_ms, refuser, place)
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due, refused_at, refused_by, history)
  select id, name, queue, priority, version, body, options, digest, to_timestamp(eta_ms / 1000.0), to_timestamp(expires_ms / 1000.0),
    case when refuser is null then 'waiting' else 'refused' end, case when delay_ms is null then greatest(clock_timestamp(), to_timestamp(eta_ms / 1000.0))
      else clock_timestamp() + delay_ms * interval '1 millisecond' end,
    case when refuser is not null then clock_timestamp() end, refuser,
    outlast_line(case when refuser is null then 'arrived' else 'refused' end, 0, refuser, null)
  from msg order by place
  on conflict (id) do nothing
  returning id, digest
), known as materialized (
  select m.id, m.digest, coalesce(t.digest <> m.digest, false) as is_other,
    t.digest = m.digest and t.state = 'refused' and t.epoch = 0 as is_aside
  from msg m join outlast_task t on t.id = m.id
), buried as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending, ended_at, reason, error, version, history)
  select m.id || '#' || left(m.digest, 16), m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, 'dead', 'dead',
    clock_timestamp(), 'ERR_DIGEST', convert_to(:'mark_digest_conflict', 'UTF8'), 1,
    outlast_line('buried', 0, null, null)
  from msg m join known k on k.id = m.id and k.digest = m.digest and k.is_other
  on conflict (id) do nothing
), came as (
  -- As in `begin-messages`: cancelled before it came.
  update outlast_task t set name = m.name, queue = m.queue, priority = m.priority, payload_version = m.version, body = m.body,
    options = m.options, digest = m.digest
  from msg m
  where t.id = m.id and t.state = 'cancelled' and t.digest is null and outlast_follows(m.body, m.options)
), again as (
  -- A copy of a task that is set aside: the worker that brings it lets go of it, so a hand-back under way must find the row
  -- changed. A task that has gone meanwhile is not updated and so not accounted for.
  update outlast_task t set options = m.options, refused_at = clock_timestamp(), refused_by = coalesce(m.refuser, t.refused_by)
  from msg m
  where t.id = m.id and t.digest = m.digest and t.state = 'refused' and t.epoch = 0
  returning t.id
), note as (select pg_notify('outlast_task', '') from (select 1 from put limit 1) p)
select id, digest, (select count(*) from note)::text as notified from put
union all
select id, digest, '0' from known where is_aside is not true or id in (select id from again)

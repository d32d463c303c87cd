-- Moves due rows into the ledger of the same database: one statement, so there is no moment in which a task is
-- in neither table or must be sent again. A task the ledger has already is a copy and is dropped; the same id
-- with other bytes is kept as a dead letter under id and digest. A row is deleted only if it is accounted for: if
-- another session is just inserting its id, it stays, and the next pass sees the outcome.
-- Rows with an ordering key go together, in their order: from the first of the key on, as far as this statement has locked
-- them without a gap. Row by row, a backlog under one key would be walked over once for each of its rows. Rows of a key whose
-- first row cannot go are not even locked, or they would fill the batch.
-- Up to $1 rows with a key and as many without, each from its own index.
-- Rows in an unknown format are left to a newer version.
-- Rows due before the floor are left out; null is no floor.
-- Rows that must pass a rate first stay, and are reported: the relay claims them when it takes rates. Compose writes the
-- text that is searched for; within a user's value its quotes would be escaped.
-- Inserted rows are looked up by IN, which is a hash whatever the planner expects: a join would compare every row of a batch
-- with every other one when the statement was planned for an empty outbox.
-- params: limit int, known_format int, floor_ms float8
with plain as materialized (
  select o.* from outlast_outbox o
  where o.state = 'pending' and o.ordering_key is null and o.available_at <= statement_timestamp() and o.schema_version <= $2
    and o.available_at >= coalesce(to_timestamp($3::float8 / 1000), '-infinity')
  order by o.available_at, o.id limit $1 for update skip locked
), keyed as materialized (
  select o.* from outlast_outbox o
  where o.state = 'pending' and o.ordering_key is not null and o.available_at <= statement_timestamp() and o.schema_version <= $2
    and o.available_at >= coalesce(to_timestamp($3::float8 / 1000), '-infinity')
    and (select f.id = o.id or (f.state = 'pending' and f.available_at <= statement_timestamp() and f.schema_version <= $2
          and position(:'mark_limited'::bytea in f.options) = 0)
        from outlast_outbox f where f.ordering_key = o.ordering_key order by f.id limit 1)
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key)
  order by o.available_at, o.id limit $1 for update skip locked
), found as (
  select o.*, position(:'mark_limited'::bytea in o.options) > 0 as is_limited
  from (select * from plain union all select * from keyed) o
), chained as (
  select f.*, row_number() over k as nth, sum(f.is_limited::int) over k as limits,
    lag(f.id) over k is not distinct from
      case when f.ordering_key is not null then (select max(e.id) from outlast_outbox e where e.ordering_key = f.ordering_key and e.id < f.id) end as follows
  from found f window k as (partition by f.ordering_key order by f.id)
), due as materialized (
  select c.* from (select c.*, bool_and(c.follows) over (partition by c.ordering_key order by c.id) as is_whole from chained c) c
  -- A row that must pass a rate stays, and so do those behind it.
  where c.ordering_key is null or (c.is_whole and (c.limits = 0 or c.nth = 1))
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due, created_at, history)
  select task_id, task_name, queue, priority, payload_version,
    '\x5b'::bytea || args || '\x2c'::bytea || kwargs || '\x2c'::bytea || embed || '\x5d'::bytea,
    options, digest, eta, expires_at, 'waiting', statement_timestamp(), created_at, outlast_line('relayed', 0, null, null)
  from due where not is_limited order by due.id
  on conflict (id) do nothing
  returning id
), known as materialized (
  select d.task_id, coalesce(t.digest <> d.digest, false) as is_other from due d join outlast_task t on t.id = d.task_id
), buried as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, created_at,
    ending, ended_at, reason, error, version, history)
  select d.task_id || '#' || left(d.digest, 16), task_name, queue, priority, payload_version,
    '\x5b'::bytea || args || '\x2c'::bytea || kwargs || '\x2c'::bytea || embed || '\x5d'::bytea,
    options, digest, eta, expires_at, 'dead', created_at, 'dead', clock_timestamp(), 'ERR_DIGEST',
    convert_to(:'mark_digest_conflict', 'UTF8'), 1,
    outlast_line('buried', 0, null, null)
  from due d where d.task_id in (select k.task_id from known k where k.is_other)
  on conflict (id) do nothing
  returning id
), came as (
  -- As in `begin-messages`: cancelled before it came.
  update outlast_task t set name = d.task_name, queue = d.queue, priority = d.priority, payload_version = d.payload_version,
    body = d.body, options = d.options, digest = d.digest
  from (select *, '\x5b'::bytea || args || '\x2c'::bytea || kwargs || '\x2c'::bytea || embed || '\x5d'::bytea as body from due) d
  where t.id = d.task_id and t.state = 'cancelled' and t.digest is null and outlast_follows(d.body, d.options)
), gone as (
  delete from outlast_outbox o using due d
  where o.id = d.id
    and (d.task_id in (select p.id from put p) or d.task_id in (select k.task_id from known k))
  returning o.id, o.task_id, o.task_name, o.queue, o.available_at, o.ordering_key
), note as (select pg_notify('outlast_task', '') from (select 1 from put limit 1) p)
select g.task_id as id, g.task_name as name, g.queue, (date_part('epoch', greatest(g.available_at, timestamptz 'epoch')) * 1000000)::bigint::text as available_us,
  g.ordering_key is not null as is_ordered,
  case when g.task_id in (select p.id from put p) then 'moved'
    when g.task_id in (select k.task_id from known k where k.is_other) then 'conflict' else 'copy' end as answer,
  (select count(*) from note)::text as notified, (select count(*) from buried)::text as buried, g.id as place
from gone g
union all
select d.task_id, d.task_name, d.queue, (date_part('epoch', greatest(d.available_at, timestamptz 'epoch')) * 1000000)::bigint::text, d.ordering_key is not null,
  'limited', '0', '0', d.id
from due d where d.is_limited and d.task_id not in (select k.task_id from known k)
order by place

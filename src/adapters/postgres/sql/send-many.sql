-- As enqueue-many.sql, where the ledger is in the same database: a row with a body becomes a waiting task at once, any other
-- one (with an ordering key, or under a rate) a row of the outbox.
-- An id that was chosen may be known already, as a task in any state or as a row that was not moved yet. Then nothing is
-- written and the digest of that one is returned. A task that was cancelled before it came stays cancelled: its tombstone
-- takes the bytes, once, if something follows them (see `move`).
-- A key is kept beyond its window as long as its task has not been begun.
-- Look-ups of single ids are scalar subqueries: an EXISTS might read the whole table to make a hash of it.
-- Where relays take the outbox of this database to a broker nothing is written, as in send-task.sql: the answer is the place
-- `relayed`, with a mark of the transaction.
-- params: rows text, notify text, proof text
with tier as materialized (
  select exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database') as is_relayed
), item as (
  select r.*, row_number() over () as place
  from jsonb_to_recordset($1::text::jsonb) as r(
    task_id text, task_name text, queue text, priority text, body text, args text, kwargs text, embed text, options text,
    digest text, schema_version text, payload_version text, eta_ms text, expires_ms text, ordering_key text,
    parks_key text, redacted_args text, redacted_kwargs text, idempotency_key text, fingerprint text, key_window_ms text,
    chosen text)
  where ($3::text is null or current_setting('outlast.transaction', true) = $3::text) and not (select is_relayed from tier)
), wanted as (
  select distinct on (idempotency_key collate "C") * from item where idempotency_key is not null
  order by idempotency_key collate "C", place
), held as (
  insert into outlast_send_key as k (key, task_id, fingerprint, free_at)
  select idempotency_key, task_id, fingerprint, now() + key_window_ms::bigint * interval '1 millisecond'
  from wanted
  on conflict (key) do update set (task_id, fingerprint, free_at) = (
    select case when f.is_free then excluded.task_id else k.task_id end, case when f.is_free then excluded.fingerprint else k.fingerprint end,
      case when f.is_free then excluded.free_at else k.free_at end
    from (select k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
      and not exists (select 1 from outlast_task t where t.id = k.task_id and t.state in ('waiting', 'refused') and t.epoch = 0) as is_free) f)
  returning k.key, k.task_id, k.fingerprint, k.free_at
), fresh as materialized (
  select i.*, decode(i.body, 'base64') as bytes from item i
  where (i.idempotency_key is null or exists (select 1 from held h where h.key = i.idempotency_key and h.task_id = i.task_id
      -- Taken in this transaction: if this very id took the key before, the task was sent before.
      and h.free_at = now() + i.key_window_ms::bigint * interval '1 millisecond'))
    and (i.body is null or i.chosen is null or (select o.task_id from outlast_outbox o where o.task_id = i.task_id) is null)
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due)
  select f.task_id, f.task_name, f.queue, f.priority::smallint, f.payload_version::smallint, f.bytes, decode(f.options, 'base64'),
    f.digest, to_timestamp(f.eta_ms::double precision / 1000), to_timestamp(f.expires_ms::double precision / 1000), 'waiting',
    greatest(clock_timestamp(), to_timestamp(f.eta_ms::double precision / 1000))
  from fresh f where f.body is not null
  order by f.place
  on conflict (id) do nothing
  returning id
), came as (
  update outlast_task t set name = f.task_name, queue = f.queue, priority = f.priority::smallint,
    payload_version = f.payload_version::smallint, body = f.bytes, options = decode(f.options, 'base64'), digest = f.digest
  from fresh f
  where t.id = any(array(select c.task_id from fresh c where c.chosen is not null and c.body is not null)) and f.task_id = t.id
    and t.state = 'cancelled' and t.digest is null and outlast_follows(f.bytes, decode(f.options, 'base64'))
), kept as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
    schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args,
    redacted_kwargs, idempotency_key)
  select f.task_id, f.task_name, f.queue, f.priority::smallint, decode(f.args, 'base64'), decode(f.kwargs, 'base64'),
    decode(f.embed, 'base64'), decode(f.options, 'base64'), f.digest, f.schema_version::smallint,
    f.payload_version::smallint, coalesce(to_timestamp(f.eta_ms::double precision / 1000), now()),
    to_timestamp(f.eta_ms::double precision / 1000), to_timestamp(f.expires_ms::double precision / 1000),
    f.ordering_key, f.parks_key::boolean, decode(f.redacted_args, 'base64'), decode(f.redacted_kwargs, 'base64'),
    f.idempotency_key
  from fresh f where f.body is null
  order by f.place
  on conflict (task_id) do nothing
  returning task_id
), note as (
  select pg_notify('outlast_task', '') from (select 1 from put limit 1) w where $2::text is not null
  union all
  select pg_notify('outlast_outbox', '') from (select 1 from kept limit 1) w where $2::text is not null
)
select i.place::text as place, h.task_id as held_by, h.fingerprint as held_fingerprint,
  coalesce((select o.digest from outlast_outbox o where o.task_id = i.task_id),
    (select t.digest from outlast_task t where t.id = i.task_id and i.body is not null)) as earlier_digest
from item i
left join held h on h.key = i.idempotency_key
-- Notified here: when all rows were written nothing is selected, and then no worker would be notified.
where i.task_id not in (select p.id from put p) and i.task_id not in (select k.task_id from kept k) and (select count(*) from note) >= 0
union all
select '0', null, null, null
where $3::text is not null and current_setting('outlast.transaction', true) is distinct from $3::text
union all
select 'relayed', set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true), null, null
where ($3::text is null or current_setting('outlast.transaction', true) = $3::text) and (select is_relayed from tier)

-- Writes up to a thousand tasks in one statement, inside the caller's transaction. The rows are one JSON
-- text whose members are all text or null; bytes are base64 in it, so NUL never meets jsonb.
-- Answers one row per task that was not written; the caller compares.
-- With a proof nothing is written, and the answer is the place 0, unless transaction-mark.sql has set it in this very
-- transaction: the setting ends with it.
-- params: rows text, notify text, proof text
with item as (
  select r.*, row_number() over () as place
  from jsonb_to_recordset($1::text::jsonb) as r(
    task_id text, task_name text, queue text, priority text, args text, kwargs text, embed text, options text,
    digest text, schema_version text, payload_version text, eta_ms text, expires_ms text, ordering_key text,
    parks_key text, redacted_args text, redacted_kwargs text, idempotency_key text, fingerprint text, key_window_ms text)
  where $3::text is null or current_setting('outlast.transaction', true) = $3::text
), wanted as (
  -- Two calls of one batch may name the same key: the first one gets it. Sorted as the caller sorts, to avoid deadlocks
  -- between two transactions with the same keys.
  select distinct on (idempotency_key collate "C") * from item where idempotency_key is not null
  order by idempotency_key collate "C", place
), held as (
  insert into outlast_send_key as k (key, task_id, fingerprint, free_at)
  select idempotency_key, task_id, fingerprint, now() + key_window_ms::bigint * interval '1 millisecond'
  from wanted
  on conflict (key) do update set
    task_id = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.task_id else k.task_id end,
    fingerprint = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.fingerprint else k.fingerprint end,
    free_at = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.free_at else k.free_at end
  returning k.key, k.task_id, k.fingerprint, k.free_at
), written as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
    schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args,
    redacted_kwargs, idempotency_key)
  select i.task_id, i.task_name, i.queue, i.priority::smallint, decode(i.args, 'base64'), decode(i.kwargs, 'base64'),
    decode(i.embed, 'base64'), decode(i.options, 'base64'), i.digest, i.schema_version::smallint,
    i.payload_version::smallint, coalesce(to_timestamp(i.eta_ms::double precision / 1000), now()),
    to_timestamp(i.eta_ms::double precision / 1000), to_timestamp(i.expires_ms::double precision / 1000),
    i.ordering_key, i.parks_key::boolean, decode(i.redacted_args, 'base64'), decode(i.redacted_kwargs, 'base64'),
    i.idempotency_key
  from item i
  where i.idempotency_key is null or exists (select 1 from held h where h.key = i.idempotency_key and h.task_id = i.task_id
    and h.free_at = now() + i.key_window_ms::bigint * interval '1 millisecond')
  order by i.place
  on conflict (task_id) do nothing
  returning task_id
), note as (select pg_notify('outlast_outbox', '') from (select 1 from written limit 1) w where $2::text is not null)
select i.place::text as place, h.task_id as held_by, h.fingerprint as held_fingerprint, o.digest as earlier_digest
from item i
left join held h on h.key = i.idempotency_key
left join outlast_outbox o on o.task_id = i.task_id
left join written w on w.task_id = i.task_id
-- Notified here: when all rows were written nothing is selected, and then no relay would be notified.
where w.task_id is null and (select count(*) from note) >= 0
union all
select '0', null, null, null
where $3::text is not null and current_setting('outlast.transaction', true) is distinct from $3::text

-- Writes one task that has an idempotency key, inside the caller's transaction. Parameters are as in enqueue.sql.
-- If another task holds the key, it writes nothing and names the holder. If the id exists already, it
-- writes nothing either: the caller compares digests. Neither harms the transaction.
-- params: task_id text, task_name text, queue text, priority text, args text, kwargs text, embed text, options text, digest text, schema_version text, payload_version text, eta_ms text, expires_ms text, ordering_key text, parks_key text, redacted_args text, redacted_kwargs text, idempotency_key text, fingerprint text, key_window_ms text, notify text
with held as (
  insert into outlast_send_key as k (key, task_id, fingerprint, free_at)
  select $18::text, $1::text, $19::text, now() + $20::text::bigint * interval '1 millisecond'
  on conflict (key) do update set
    task_id = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.task_id else k.task_id end,
    fingerprint = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.fingerprint else k.fingerprint end,
    free_at = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.free_at else k.free_at end
  returning k.task_id, k.fingerprint, k.free_at
), written as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
    schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args,
    redacted_kwargs, idempotency_key)
  select $1::text, $2::text, $3::text, $4::text::smallint, decode($5::text, 'base64'), decode($6::text, 'base64'),
    decode($7::text, 'base64'), decode($8::text, 'base64'), $9::text, $10::text::smallint, $11::text::smallint,
    coalesce(to_timestamp($12::text::double precision / 1000), now()),
    to_timestamp($12::text::double precision / 1000), to_timestamp($13::text::double precision / 1000),
    $14::text, $15::text::boolean, decode($16::text, 'base64'), decode($17::text, 'base64'), $18::text
  where exists (select 1 from held where held.task_id = $1::text
    -- Taken in this transaction: if this very id took the key before, the task was sent before.
    and held.free_at = now() + $20::text::bigint * interval '1 millisecond')
  on conflict (task_id) do nothing
  returning task_id
)
select
  (select count(*) from written)::text as written,
  (select held.task_id from held) as held_by,
  (select held.fingerprint from held) as held_fingerprint,
  (select o.digest from outlast_outbox o where o.task_id = $1::text) as earlier_digest,
  (select count(*) from (select pg_notify('outlast_outbox', '') from written where $21::text is not null) note)::text as notified

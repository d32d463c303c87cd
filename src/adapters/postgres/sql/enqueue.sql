-- Writes one task under a newly drawn id into the outbox, inside the caller's transaction. Every parameter is text or
-- null and is cast here, so that one statement serves every driver; bytes travel as base64. It returns nothing and checks
-- for no conflict: both would cost more than the row.
-- params: task_id text, task_name text, queue text, priority text, args text, kwargs text, embed text, options text, digest text, schema_version text, payload_version text, eta_ms text, expires_ms text, ordering_key text, parks_key text, redacted_args text, redacted_kwargs text
insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
  schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args, redacted_kwargs)
values ($1::text, $2::text, $3::text, $4::text::smallint, decode($5::text, 'base64'), decode($6::text, 'base64'),
  decode($7::text, 'base64'), decode($8::text, 'base64'), $9::text, $10::text::smallint, $11::text::smallint,
  coalesce(to_timestamp($12::text::double precision / 1000), now()),
  to_timestamp($12::text::double precision / 1000), to_timestamp($13::text::double precision / 1000),
  $14::text, $15::text::boolean, decode($16::text, 'base64'), decode($17::text, 'base64'))

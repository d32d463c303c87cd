-- Moves rows that spent their retries to the dead letters, with everything they had, if they are still ours.
-- A letter with this id and other bytes stays as it is; the new one is stored beside it under id and digest.
-- params: token text, rows bigint[], errors text[], records bytea[]
with item as (select * from unnest($2::bigint[], $3::text[], $4::bytea[]) as i(id, error, record)),
gone as (
  delete from outlast_outbox o using item i
  where o.id = i.id and o.claim_token = $1 and o.state = 'claimed'
  returning o.*, i.error, i.record
)
insert into outlast_dead_letter as d (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, eta, expires_at, idempotency_key, retries, failure_reason, error_history, created_at,
  row_id, ordering_key, parks_key, redacted_args, redacted_kwargs)
select case when exists (select 1 from outlast_dead_letter l where l.task_id = g.task_id and l.digest <> g.digest)
    then g.task_id || '#' || left(g.digest, 16) else g.task_id end,
  least(deaths, 2147483646) + 1, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, eta, expires_at, idempotency_key, least(retries, 32766) + 1, error, outlast_history(error_history, outlast_line('dead', 0, null, record)), created_at,
  id, ordering_key, parks_key, redacted_args, redacted_kwargs
from gone g
on conflict (task_id) do update set version = d.version + 1, failure_reason = excluded.failure_reason,
  error_history = outlast_history(d.error_history, excluded.error_history), dead_at = clock_timestamp(), row_id = excluded.row_id
returning task_id as row

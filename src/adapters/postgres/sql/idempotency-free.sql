-- Forgets a key that this run holds; where asked for also its result.
-- params: key text, task_id text, epoch bigint, even_done boolean
delete from outlast_idempotency k
where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and (k.state = 'held' or $4::boolean)
  and coalesce(k.expires_at > clock_timestamp(), true)
returning k.waiters::text as waiters

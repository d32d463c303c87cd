-- Deletes expired keys.
-- params: limit int
delete from outlast_idempotency k using (
  select key from outlast_idempotency where expires_at <= clock_timestamp() order by expires_at limit $1 for update skip locked
) over
where k.key = over.key returning k.key

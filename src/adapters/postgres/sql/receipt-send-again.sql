-- Published rows whose task nobody knows any more are due again.
-- params: rows bigint[]
update outlast_outbox set state = 'pending', available_at = clock_timestamp(), updated_at = clock_timestamp()
where id = any($1::bigint[]) and state = 'sent'
returning id

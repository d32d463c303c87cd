-- Published rows whose task is unknown now are due again; a row that was published since it was read is not.
-- params: rows bigint[], claims int
update outlast_outbox set state = 'pending', available_at = clock_timestamp(), updated_at = clock_timestamp()
where id = any($1::bigint[]) and claims = $2::int and state = 'sent'
returning id

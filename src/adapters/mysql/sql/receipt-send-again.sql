-- Published rows whose task is unknown now are due again; a row that was published since it was read is not.
-- params: rows bigint list, claims int
update outlast_outbox set state = 'pending', available_at = utc_timestamp(6), updated_at = utc_timestamp(6)
where id in ($1) and claims = $2 and state = 'sent'

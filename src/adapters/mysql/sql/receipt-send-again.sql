-- Published rows whose task nobody knows any more are due again; one that was published since it was looked at is not.
-- params: rows bigint list, claims int
update outlast_outbox set state = 'pending', available_at = utc_timestamp(6), updated_at = utc_timestamp(6)
where id in ($1) and claims = $2 and state = 'sent'

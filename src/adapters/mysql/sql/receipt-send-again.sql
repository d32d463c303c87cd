-- Published rows whose task nobody knows any more are due again.
-- params: rows bigint list
update outlast_outbox set state = 'pending', available_at = utc_timestamp(6), updated_at = utc_timestamp(6)
where id in ($1) and state = 'sent'

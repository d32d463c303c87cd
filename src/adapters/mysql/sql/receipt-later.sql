-- Published rows whose task is not over are checked later. A row that was parked is not any more.
-- params: rows bigint list, delay_ms bigint, parked text
update outlast_outbox
set available_at = utc_timestamp(6) + interval $2 * 1000 microsecond, last_error = nullif(last_error, $3)
where id in ($1) and state = 'sent'

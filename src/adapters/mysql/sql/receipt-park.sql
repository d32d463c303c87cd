-- Published rows whose task is dead stay, and hold back the rows behind them.
-- params: rows bigint list, delay_ms bigint, parked text
update outlast_outbox
set available_at = utc_timestamp(6) + interval $2 * 1000 microsecond, last_error = $3
where id in ($1) and state = 'sent'

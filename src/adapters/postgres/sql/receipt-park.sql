-- Published rows whose task is dead stay, and hold back the rows behind them.
-- params: rows bigint[], delay_ms bigint, parked text
update outlast_outbox
set available_at = clock_timestamp() + $2::bigint * interval '1 millisecond', last_error = $3
where id = any($1::bigint[]) and state = 'sent'
returning id

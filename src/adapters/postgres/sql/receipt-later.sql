-- Published rows whose task is not over are checked later. A row that was parked is not any more.
-- params: rows bigint[], delay_ms bigint, parked text
update outlast_outbox
set available_at = clock_timestamp() + $2::bigint * interval '1 millisecond', last_error = nullif(last_error, $3)
where id = any($1::bigint[]) and state = 'sent'
returning id

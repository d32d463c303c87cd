-- Gives a failed row its backoff, if it is still ours. The line is added to the history, preceded by the database's time,
-- until the history has its full length.
-- params: token text, row bigint, error text, delay_ms bigint, line bytes
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, retries = retries + 1, last_error = $3,
  error_history = case when length(error_history) > 262144 then error_history
    else concat(error_history, '{"at":"', date_format(utc_timestamp(6), '%Y-%m-%dT%H:%i:%s.%fZ'), '",', $5) end,
  available_at = utc_timestamp(6) + interval $4 * 1000 microsecond, updated_at = utc_timestamp(6)
where id = $2 and claim_token = $1 and state = 'claimed'

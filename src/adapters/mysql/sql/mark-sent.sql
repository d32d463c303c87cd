-- Published rows that are still ours stay until their task is over. Their `available_at` is when to check them next,
-- their `updated_at` when they were published.
-- params: token text, rows bigint list, delay_ms bigint
update outlast_outbox
set state = 'sent', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6),
  available_at = utc_timestamp(6) + interval $3 * 1000 microsecond
where id in ($2) and claim_token = $1 and state = 'claimed'

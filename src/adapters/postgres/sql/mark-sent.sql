-- Published rows that are still ours stay until their task is over. Their `available_at` is when to check them next,
-- their `updated_at` when they were published.
-- params: token text, rows bigint[], delay_ms bigint
update outlast_outbox
set state = 'sent', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp(),
  available_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
where id = any($2::bigint[]) and claim_token = $1 and state = 'claimed'
returning id::text as row

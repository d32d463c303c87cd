-- Gives back rows that are still ours for a later time; costs no retry.
-- params: token text, rows bigint[], delay_ms bigint
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp(),
  available_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
where id = any($2::bigint[]) and claim_token = $1 and state = 'claimed' returning id::text as row

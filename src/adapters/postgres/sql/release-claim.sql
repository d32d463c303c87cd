-- Gives back what is still ours; costs no retry.
-- params: token text, defer_ms bigint
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp(),
  available_at = case when $2::bigint > 0 then clock_timestamp() + $2::bigint * interval '1 millisecond' else available_at end
where claim_token = $1 and state = 'claimed' returning id::text as row

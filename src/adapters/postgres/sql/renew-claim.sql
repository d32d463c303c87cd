-- Extends a claim that is still ours.
-- params: token text, stale_ms bigint
update outlast_outbox set claimed_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
where claim_token = $1 and state = 'claimed' returning id::text as row

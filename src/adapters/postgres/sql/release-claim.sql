-- Gives back all rows that are still ours, in their old position; costs no retry.
-- params: token text
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp()
where claim_token = $1 and state = 'claimed' returning id::text as row

-- Gives back all that is still ours, in its old place; costs no retry.
-- params: token text
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp()
where claim_token = $1 and state = 'claimed' returning id::text as row

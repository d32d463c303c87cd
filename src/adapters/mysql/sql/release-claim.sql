-- Gives back rows that are still ours, in their old position; costs no retry.
-- params: token text, rows bigint list
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6)
where id in ($2) and claim_token = $1 and state = 'claimed'

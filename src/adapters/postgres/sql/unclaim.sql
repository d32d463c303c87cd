-- Gives back claimed rows that were not read, as if they had not been claimed: they keep their position.
-- params: token text, rows bigint[]
update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, claims = greatest(0, o.claims - 1)
where o.id = any($2::bigint[]) and o.claim_token = $1 and o.state = 'claimed'

-- Gives back rows that are still ours for a later time, each for its own; costs no retry.
-- params: token text, rows bigint[], delays_ms bigint[]
update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp(),
  available_at = clock_timestamp() + ($3::bigint[])[array_position($2::bigint[], o.id)] * interval '1 millisecond'
where o.id = any($2::bigint[]) and o.claim_token = $1 and o.state = 'claimed' returning o.id::text as row

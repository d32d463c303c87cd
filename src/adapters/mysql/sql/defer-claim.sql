-- Gives back rows that are still ours for a later time, each for its own; costs no retry.
-- params: token text, rows bigint list, delays_ms bigint list
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6),
  available_at = utc_timestamp(6) + interval elt(field(id, $2), $3) * 1000 microsecond
where id in ($2) and claim_token = $1 and state = 'claimed'

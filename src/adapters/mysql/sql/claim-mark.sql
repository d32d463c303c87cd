-- Assigns rows that this transaction has locked to the relay, under a random token. They are invisible to other relays until
-- the claim is over.
-- params: relay text, token text, stale_ms bigint, rows bigint list
update outlast_outbox
set state = 'claimed', claim_token = $2, claimed_by = $1, claims = claims + 1,
  claimed_until = utc_timestamp(6) + interval $3 * 1000 microsecond, updated_at = utc_timestamp(6)
where id in ($4)

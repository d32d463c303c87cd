-- Gives back rows that are still ours for a later time; costs no retry.
-- params: token text, rows bigint list, delay_ms bigint
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6),
  available_at = utc_timestamp(6) + interval $3 * 1000 microsecond
where id in ($2) and claim_token = $1 and state = 'claimed'

-- Extends a claim that is still ours.
-- params: token text, rows bigint list, stale_ms bigint
update outlast_outbox set claimed_until = utc_timestamp(6) + interval $3 * 1000 microsecond
where id in ($2) and claim_token = $1 and state = 'claimed'

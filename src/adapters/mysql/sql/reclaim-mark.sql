-- Returns rows that this transaction has locked.
-- params: rows bigint list
update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6)
where id in ($1)

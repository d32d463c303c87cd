-- Locks a row that is about to become a dead letter, if it is still ours.
-- params: token text, row bigint
select id as row_id from outlast_outbox where id = $2 and claim_token = $1 and state = 'claimed' for update

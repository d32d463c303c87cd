-- Deletes rows the broker confirmed, if they are still ours.
-- params: token text, rows bigint list
delete from outlast_outbox where id in ($2) and claim_token = $1 and state = 'claimed'

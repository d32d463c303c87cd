-- Deletes a row that was copied to the dead letters in this transaction.
-- params: token text, row bigint
delete from outlast_outbox where id = $2 and claim_token = $1 and state = 'claimed'

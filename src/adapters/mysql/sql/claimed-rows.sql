-- The rows of a claim, read without a lock: they are then changed by id, in the order in which every session locks them.
-- params: token text
select id as row_id from outlast_outbox where claim_token = $1 order by id

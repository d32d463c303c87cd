-- Deletes rows the broker confirmed, as far as they are still ours.
-- params: token text, rows bigint[]
delete from outlast_outbox where id = any($2::bigint[]) and claim_token = $1 and state = 'claimed' returning id::text as row, ordering_key is not null as is_ordered

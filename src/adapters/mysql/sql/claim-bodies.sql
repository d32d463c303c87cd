-- The payloads of rows that this transaction has claimed: separate from `claim`, which returns their length.
-- params: rows bigint list
select id as row_id, concat('[', args, ',', kwargs, ',', embed, ']') as body from outlast_outbox where id in ($1)

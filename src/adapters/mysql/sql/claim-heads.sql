-- The first row of each of $2 ordering keys, in any state, from the key after $1 on. The index is read from key to key, so a
-- backlog behind a first row is not walked over.
-- params: after_key bytes, keys int
select min(id) as row_id, ordering_key as ordering_key from outlast_outbox force index (outlast_outbox_ordered)
where ordering_key > $1 group by ordering_key order by ordering_key limit $2

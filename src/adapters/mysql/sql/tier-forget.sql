-- Nothing is left in this store.
-- params: role text, store text
delete from outlast_tier where role = $1 and store_hash = sha2($2, 256)

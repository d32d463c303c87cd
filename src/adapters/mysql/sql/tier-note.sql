-- This store serves beside this database, as broker or as ledger.
-- params: role text, store text
insert into outlast_tier (role, store_hash, store, last_at) values ($1, sha2($2, 256), $2, utc_timestamp(6))
on duplicate key update last_at = values(last_at)

-- Deletes keys that this transaction has locked.
-- params: key_hashes text list
delete from outlast_send_key where key_hash in ($1)

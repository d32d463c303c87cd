-- Removes the row of proof-write.sql.
-- params: proof text
delete from outlast_send_key where key_hash = $1

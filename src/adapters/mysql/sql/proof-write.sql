-- Writes a row that ends with the caller's transaction if that rolls back: second of three statements that prove one, between
-- transaction-mark.sql and transaction-check.sql. What is written after that is selected from this row, so that it is
-- written only where the row is. It is a key that no task holds and that is free at once, so that one which is left behind is
-- pruned with the keys. No text is empty: with EMPTY_STRING_IS_NULL (MariaDB) that would be null.
-- params: proof text
insert into outlast_send_key (key_hash, task_id, fingerprint, token, free_at) values ($1, '-', '-', '-', utc_timestamp(6))

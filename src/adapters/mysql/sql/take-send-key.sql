-- Takes an idempotency key, or locks it if another task has it already; read-send-keys.sql returns the holder. The part
-- between `values` and `on duplicate` is repeated for further keys.
-- params: key_hash text, task_id text, fingerprint text, token text, key_window_ms text
insert into outlast_send_key (key_hash, task_id, fingerprint, token, free_at)
values ($1, $2, $3, $4, utc_timestamp(6) + interval cast($5 as signed) * 1000 microsecond)
on duplicate key update key_hash = outlast_send_key.key_hash

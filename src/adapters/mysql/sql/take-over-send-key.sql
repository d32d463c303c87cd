-- Assigns a free key to another task; this transaction has locked it.
-- params: key_hash text, task_id text, fingerprint text, token text, key_window_ms text
update outlast_send_key
set task_id = $2, fingerprint = $3, token = $4, free_at = utc_timestamp(6) + interval cast($5 as signed) * 1000 microsecond
where key_hash = $1

-- As take-over-send-key.sql, only where the row of proof-write.sql is.
-- params: key_hash text, task_id text, fingerprint text, token text, key_window_ms text, proof text
update outlast_send_key k join outlast_send_key proof on proof.key_hash = $6
set k.task_id = $2, k.fingerprint = $3, k.token = $4,
  k.free_at = utc_timestamp(6) + interval cast($5 as signed) * 1000 microsecond
where k.key_hash = $1

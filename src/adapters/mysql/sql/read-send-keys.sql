-- The holders of the idempotency keys that this transaction has locked, and whether the keys may be taken over: the window
-- is over and the task has left the outbox.
-- params: key_hashes text list
select k.key_hash, k.task_id as held_by, k.fingerprint, k.token,
  case when k.free_at <= utc_timestamp(6) and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
    then 'yes' else 'no' end as is_free
from outlast_send_key k where k.key_hash in ($1) order by k.key_hash limit 1000000 for update

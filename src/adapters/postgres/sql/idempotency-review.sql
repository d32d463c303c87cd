-- Keys held by tasks that were not reviewed for a while, longest ago first; they count as reviewed now.
-- params: idle_ms bigint, limit int
with old as (
  select key from outlast_idempotency
  where expires_at is null and reviewed_at <= clock_timestamp() - $1::bigint * interval '1 millisecond'
  order by reviewed_at limit $2 for update skip locked
)
update outlast_idempotency k set reviewed_at = clock_timestamp() from old
where k.key = old.key
returning k.key, k.task_id, k.epoch::text as epoch, k.run,
  (extract(epoch from clock_timestamp() - k.held_at) * 1000)::bigint::text as held_ms

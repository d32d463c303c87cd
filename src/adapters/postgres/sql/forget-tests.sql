-- Deletes what test kits have written: rows, held keys, fences and steps of ids that begin so. With an age only what kits have
-- left that were killed. Rows of open transactions are not seen.
-- params: prefix text, older_ms bigint
with old as materialized (
  select clock_timestamp() - $2 * interval '1 millisecond' as since
), sent as (
  delete from outlast_outbox o using old where starts_with(o.task_id, $1) and o.created_at <= old.since
), held as (
  delete from outlast_send_key k using old
  where starts_with(k.task_id, $1) and k.free_at - interval '1 day' <= old.since
), steps as (
  delete from outlast_effect e using old where starts_with(e.task_id, $1) and e.created_at <= old.since
)
delete from outlast_fence f using old where starts_with(f.task_id, $1) and f.updated_at <= old.since

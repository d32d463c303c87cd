-- The row of one task with its bytes, the task in front of it under its ordering key, and how many relays there are.
-- params: known_format int, task_id text
select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= $1 as supported, o.retries,
  o.last_error, o.ordering_key, o.options, timestampdiff(microsecond, '1970-01-01 00:00:00', o.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.eta) div 1000 as eta_ms,
  concat('[', o.args, ',', o.kwargs, ',', o.embed, ']') as body, o.redacted_args, o.redacted_kwargs, o.error_history as history,
  o.claims, o.claimed_by,
  o.state = 'claimed' and (o.claimed_until < utc_timestamp(6)
    or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= utc_timestamp(6))) as claim_over,
  (select f.task_id from outlast_outbox f where f.ordering_key = o.ordering_key and f.id < o.id order by f.id limit 1) as behind,
  (select d.task_id from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key limit 1) as parked,
  (select count(*) from outlast_relay l where l.lease_until >= utc_timestamp(6)) as relays,
  timestampdiff(microsecond, '1970-01-01 00:00:00', utc_timestamp(6)) div 1000 as now_ms
from outlast_outbox o where o.task_id = $2

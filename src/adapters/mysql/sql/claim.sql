-- Locks up to $1 due rows, first of three statements of a claim; claim-mark.sql assigns them to the relay, claim-bodies.sql
-- reads the payloads of as many as one answer should carry. Rows that others have locked are skipped. Only the outer query
-- takes locks: the rows that the subqueries read are read as committed, so a head that another relay has locked still stands
-- before the rows behind it.
-- Of rows with an ordering key only the first, in any state, may go, and none while a dead one parks the key.
-- Rows in an unknown format are left to a newer version. Rows due before the floor are left out; null is no floor.
-- params: limit int, known_format int, floor_ms bigint
select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  length(o.args) + length(o.kwargs) + length(o.embed) as bytes, o.options, o.digest,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.eta) div 1000 as eta_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.expires_at) div 1000 as expires_ms, o.retries, o.claims,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms,
  timestampdiff(microsecond, greatest(o.created_at, coalesce(o.eta, o.created_at)), utc_timestamp(6)) / 1000 as due_ms,
  o.ordering_key is not null as is_ordered
from outlast_outbox o force index (outlast_outbox_due)
where o.state = 'pending' and o.available_at <= utc_timestamp(6) and o.schema_version <= $2
  and o.available_at >= coalesce(timestamp '1970-01-01 00:00:00' + interval $3 * 1000 microsecond, timestamp '0001-01-01 00:00:00')
  and (o.ordering_key is null or (
    not exists (select 1 from outlast_outbox e where e.ordering_key = o.ordering_key and e.id < o.id)
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key)))
order by o.available_at, o.id limit $1 for update skip locked

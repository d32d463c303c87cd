-- The row of one task with its bytes, the task in front of it under its ordering key, and how many relays there are.
-- params: known_format int, task_id text
select o.id::text as row, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= $1 as supported, o.retries, o.last_error,
  to_char(o.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(o.available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as available,
  to_char(o.eta at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as eta,
  o.ordering_key, o.options, o.redacted_args, o.redacted_kwargs, o.error_history as history, o.claims, o.claimed_by,
  '\x5b'::bytea || o.args || '\x2c'::bytea || o.kwargs || '\x2c'::bytea || o.embed || '\x5d'::bytea as body,
  o.state = 'claimed' and (o.claimed_until < clock_timestamp()
    or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= clock_timestamp())) as claim_over,
  (select f.task_id from outlast_outbox f where f.ordering_key = o.ordering_key and f.id < o.id order by f.id limit 1) as behind,
  (select d.task_id from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key limit 1) as parked,
  (select count(*) from outlast_relay where lease_until >= clock_timestamp())::text as relays,
  (extract(epoch from clock_timestamp()) * 1000)::bigint::text as now_ms
from outlast_outbox o where o.task_id = $2

-- Up to $1 published rows that are to be checked now. Other relays find them again when the lease is over.
-- params: limit int, lease_ms bigint, parked text
with due as materialized (
  select o.id from outlast_outbox o where o.state = 'sent' and o.available_at <= statement_timestamp()
  order by o.available_at, o.id limit $1 for update skip locked
)
update outlast_outbox o set available_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
where o.id = any(array(select due.id from due))
returning o.id::text as row, o.task_id as id, o.claims,
  (extract(epoch from clock_timestamp() - o.updated_at) * 1000)::bigint::text as age_ms, o.ordering_key is not null as is_ordered,
  o.ordering_key is not null and o.parks_key as parks_key, coalesce(o.last_error = $3, false) as is_parked

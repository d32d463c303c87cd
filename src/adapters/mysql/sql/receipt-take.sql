-- Locks up to $1 published rows that are to be checked now, first of two statements; receipt-lease.sql makes others wait.
-- params: limit int, parked text
select o.id as row_id, o.task_id as id, o.claims, timestampdiff(microsecond, o.updated_at, utc_timestamp(6)) div 1000 as age_ms,
  o.ordering_key is not null as is_ordered, o.ordering_key is not null and o.parks_key as parks_key,
  coalesce(o.last_error = $2, false) as is_parked
from outlast_outbox o force index (outlast_outbox_due)
where o.state = 'sent' and o.available_at <= utc_timestamp(6)
order by o.available_at, o.id limit $1 for update skip locked

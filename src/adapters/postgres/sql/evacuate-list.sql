-- Waiting tasks and dead ones, with everything another ledger needs of them.
-- No more than $2 bytes at once, but at least one task.
-- params: limit int, most_bytes float8
select id, name, queue, priority, payload_version, body, options, digest,
  case when isfinite(eta) then (extract(epoch from eta) * 1000)::bigint::text end as eta_ms, case when isfinite(expires_at) then (extract(epoch from expires_at) * 1000)::bigint::text end as expires_ms,
  epoch::text as epoch, case when state = 'dead' then reason end as reason, error,
  (extract(epoch from least(greatest(due, clock_timestamp()), clock_timestamp() + interval '100 years') - clock_timestamp()) * 1000)::bigint::text as due_in_ms
from (
  select t.*, row_number() over () as number, sum(octet_length(t.body)::float8) over (rows unbounded preceding) as bytes
  from (select * from outlast_task where state in ('waiting', 'refused', 'dead') limit $1) t
) t
where number = 1 or bytes <= $2::float8

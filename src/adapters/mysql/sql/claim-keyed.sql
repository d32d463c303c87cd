-- Locks those of $2 that are due and still the first row of their ordering key, $1 at most; none of a key that a dead row parks.
-- Rows that others have locked are skipped. Only the outer query takes locks: the rows that the subqueries read are read as
-- committed. Rows in an unknown format are left to a newer version.
-- params: limit int, rows bigint list, known_format int
select o.id as row_id, length(o.args) + length(o.kwargs) + length(o.embed) as bytes, o.ordering_key
from outlast_outbox o force index (primary)
where o.id in ($2) and o.state = 'pending' and o.available_at <= utc_timestamp(6) and o.schema_version <= $3
  and not exists (select 1 from outlast_outbox e where e.ordering_key = o.ordering_key and e.id < o.id)
  and not exists (select 1 from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key)
order by o.ordering_key limit $1 for update skip locked

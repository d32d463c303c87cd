-- Entries that their writer has not carried out in time, or that are due again; longest due first. No more than fit into
-- memory together, but at least one. The length of an entry is known without reading it.
-- params: older_than_ms bigint, limit int, most_bytes bigint
with page as (
  select key, due, attempts, octet_length(entry) as bytes from outlast_after
  where due <= statement_timestamp() - $1::bigint * interval '1 millisecond'
  order by due, key limit $2
), summed as (
  select key, due, attempts, sum(bytes) over (order by due, key) as total, row_number() over (order by due, key) as place
  from page
)
select a.key, a.entry, s.attempts
from summed s join outlast_after a on a.key = s.key
where s.total <= $3::bigint or s.place = 1
order by s.place

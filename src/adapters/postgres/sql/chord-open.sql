-- Chords that wait for parts, oldest first, and how many there are.
-- params: limit int
select group_id, parts::text as parts, size, failed::text as failed,
  (extract(epoch from since) * 1000)::bigint::text as since_ms,
  (extract(epoch from clock_timestamp() - since) * 1000)::bigint::text as age_ms,
  (count(*) over ())::text as open
from (
  select group_id, count(result) as parts, max(size) as size, count(*) - count(result) as failed, min(joined_at) as since
  from outlast_chord_part
  group by group_id
) c
where size is null or parts < size
order by since, group_id
limit $1

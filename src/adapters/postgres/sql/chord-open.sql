-- Chords that wait for parts, oldest first, and how many there are. The count also has those that
-- are complete, for as long as it takes to send their bodies.
-- params: limit int
select c.group_id, c.body, p.parts::text as parts, coalesce(p.size, c.size) as size, p.failed::text as failed,
  (extract(epoch from c.since) * 1000)::bigint::text as since_ms,
  (extract(epoch from clock_timestamp() - c.since) * 1000)::bigint::text as age_ms,
  (select count(*) from outlast_chord)::text as open
from (select group_id, since, size, body from outlast_chord order by since, group_id limit $1) c
cross join lateral (
  select count(result) as parts, max(size) as size, count(*) - count(result) as failed
  from outlast_chord_part where group_id = c.group_id
) p
where coalesce(p.size, c.size) is null or p.parts < coalesce(p.size, c.size)
order by c.since, c.group_id

-- Chords that wait for parts, oldest first, and how many there are. The count also has those that
-- are complete, for as long as it takes to send their bodies; there is a row with the count where no chord waits.
-- params: limit int
select n.open, c.group_id, c.body, c.parts::text as parts, c.size, c.failed::text as failed,
  (extract(epoch from c.since) * 1000)::bigint::text as since_ms,
  (extract(epoch from clock_timestamp() - c.since) * 1000)::bigint::text as age_ms
from (select count(*)::text as open from outlast_chord) n
left join (
  select c.group_id, c.body, c.since, p.parts, coalesce(p.size, c.size) as size, p.failed
  from outlast_chord c
  cross join lateral (
    select count(result) as parts, max(size) as size, count(*) - count(result) as failed
    from outlast_chord_part where group_id = c.group_id
  ) p
  where coalesce(p.size, c.size) is null or p.parts < coalesce(p.size, c.size)
  order by c.since, c.group_id limit $1
) c on true
order by c.since, c.group_id

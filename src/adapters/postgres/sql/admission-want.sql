-- A task waits for a reservation under a key whose row is locked, unless one is free by now.
-- params: key text, limit int, task_id text
with room as (
  select count(*) < $2::int as is_there from outlast_place where key = $1
), wish as (
  insert into outlast_place_wanted (key, task_id) select $1, $3 from room where not is_there
  on conflict do nothing
  returning 1
)
select r.is_there as has_room, (select count(*) from wish)::text as noted from room r

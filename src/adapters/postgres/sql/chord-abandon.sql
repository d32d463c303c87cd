-- Deletes incomplete chords that have had no part for a long time, since they were sent or since the last one.
-- params: limit int, older_than_ms bigint
with silent as (
  select c.group_id from outlast_chord c
  where c.since < statement_timestamp() - $2::bigint * interval '1 millisecond'
    and not exists (select 1 from outlast_chord_part p where p.group_id = c.group_id)
  limit $1
), begun as (
  select distinct p.group_id from outlast_chord_part p
  where p.joined_at < statement_timestamp() - $2::bigint * interval '1 millisecond'
    and not exists (
      select 1 from outlast_chord_part o
      where o.group_id = p.group_id and o.joined_at >= statement_timestamp() - $2::bigint * interval '1 millisecond')
    and (p.size is null or (select count(o.result) from outlast_chord_part o where o.group_id = p.group_id) < p.size)
  limit $1
), idle as (
  select group_id from silent union select group_id from begun
), gone as (
  delete from outlast_chord_part p using idle where p.group_id = idle.group_id
), closed as (
  delete from outlast_chord c using idle where c.group_id = idle.group_id
)
select group_id from idle

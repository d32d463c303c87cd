-- Deletes chords that were completed long ago: no process repeats a part of theirs any more. Incomplete ones stay.
-- params: limit int, older_than_ms bigint
with over as (
  select p.group_id from outlast_chord_part p
  where p.joined_at < statement_timestamp() - $2::bigint * interval '1 millisecond'
    and not exists (
      select 1 from outlast_chord_part o
      where o.group_id = p.group_id and (o.result is null or o.joined_at >= statement_timestamp() - $2::bigint * interval '1 millisecond'))
    and (select count(*) from outlast_chord_part o where o.group_id = p.group_id) = p.size
  order by p.joined_at limit $1
), closed as (
  -- A process of an older version does not delete the chords it completes.
  delete from outlast_chord c using over where c.group_id = over.group_id
)
delete from outlast_chord_part p using over where p.group_id = over.group_id

-- breaking: no
-- How many parts with a result have joined an open chord. Counted in its one row: the part that completes a chord need not
-- read all others to know it.
lock table outlast_chord_part in share row exclusive mode;
alter table outlast_chord add column parts integer not null default 0;
update outlast_chord c set parts = (select count(p.result) from outlast_chord_part p where p.group_id = c.group_id)
where exists (select 1 from outlast_chord_part p where p.group_id = c.group_id);

-- A trigger, so that processes of an older version count too. The lock of the row lasts until the end of the transaction:
-- of two sessions that join the same chord, the later one finds both counted.
create or replace function outlast_chord_opened() returns trigger
language plpgsql as $$
begin
  insert into outlast_chord as c (group_id, since, parts)
  values (new.group_id, new.joined_at, (new.result is not null)::integer)
  on conflict (group_id) do update set parts = c.parts + excluded.parts where excluded.parts > 0;
  return null;
end
$$;
create trigger outlast_chord_part_repaired after update on outlast_chord_part for each row
  when (old.result is null and new.result is not null)
  execute function outlast_chord_opened();

-- Counts a part of a chord, once, and returns how far the chord is: null where it is not open. A result replaces a
-- failure, never the other way round. A part whose result any sender may have chosen is marked: the body of its chord is
-- not signed.
create function outlast_chord_join(
  of_group text, at_place integer, of_size integer, by_task text, with_result bytea, signed boolean,
  out has_result boolean, out parts integer)
language plpgsql as $$
begin
  insert into outlast_chord_part as p (group_id, place, size, task_id, result, is_signed)
  values (of_group, at_place, of_size, by_task, with_result, signed)
  on conflict (group_id, place) do update
  set task_id = excluded.task_id, result = excluded.result, is_signed = excluded.is_signed, joined_at = clock_timestamp()
  where p.result is null and excluded.result is not null;
  -- A statement of its own: the trigger has counted before it begins.
  select p.result is not null, c.parts into has_result, parts
  from outlast_chord_part p left join outlast_chord c on c.group_id = p.group_id
  where p.group_id = of_group and p.place = at_place;
end
$$;

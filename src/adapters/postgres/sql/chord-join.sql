-- Counts a part of a chord, once. A result takes the place of a failure, never the other way round.
-- params: group_id text, place int, size int, task_id text, result bytea
insert into outlast_chord_part as p (group_id, place, size, task_id, result)
values ($1, $2, $3, $4, $5)
on conflict (group_id, place) do update set task_id = excluded.task_id, result = excluded.result, joined_at = clock_timestamp()
where p.result is null and excluded.result is not null

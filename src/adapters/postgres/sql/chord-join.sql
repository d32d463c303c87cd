-- Counts a part of a chord, once. A result takes the place of a failure, never the other way round. Whoever joins the
-- same chord waits for the end of this transaction, before anything of his own is written.
-- params: group_id text, place int, size int, task_id text, result bytea
with locked as materialized (select pg_advisory_xact_lock(hashtextextended('outlast_chord ' || $1::text, 0)))
insert into outlast_chord_part as p (group_id, place, size, task_id, result)
select $1::text, $2::int, $3::int, $4::text, $5::bytea from locked
on conflict (group_id, place) do update set task_id = excluded.task_id, result = excluded.result, joined_at = clock_timestamp()
where p.result is null and excluded.result is not null

-- Counts a part of a chord, once. A result replaces a failure, never the other way round. Another session that joins the
-- same chord waits for the end of this transaction, before it writes anything.
-- A part whose result any sender may have chosen is marked: the body of its chord is not signed.
-- params: group_id text, place int, size int, task_id text, result bytea, is_signed boolean
with locked as materialized (select pg_advisory_xact_lock(hashtextextended('outlast_chord ' || $1::text, 0)))
insert into outlast_chord_part as p (group_id, place, size, task_id, result, is_signed)
select $1::text, $2::int, $3::int, $4::text, $5::bytea, $6::boolean from locked
on conflict (group_id, place) do update
set task_id = excluded.task_id, result = excluded.result, is_signed = excluded.is_signed, joined_at = clock_timestamp()
where p.result is null and excluded.result is not null

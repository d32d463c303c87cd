-- Counts a part of a chord, once: `outlast_chord_join`. One statement, so that the chord is locked for no longer than its
-- commit takes.
-- params: group_id text, place int, size int, task_id text, result bytea, is_signed boolean
select has_result, parts from outlast_chord_join($1::text, $2::int, $3::int, $4::text, $5::bytea, $6::boolean)

-- A chord has all its parts, so it is not open any more. Said again by whoever tells a part of it again.
-- params: group_id text
delete from outlast_chord where group_id = $1

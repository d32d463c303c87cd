-- The body of a chord was sent, so it is not open any more. Said again by everybody who sent it.
-- params: group_id text
delete from outlast_chord where group_id = $1

-- The body of a chord was sent, so it is not open any more. Repeated by every process that sent it.
-- params: group_id text
delete from outlast_chord where group_id = $1

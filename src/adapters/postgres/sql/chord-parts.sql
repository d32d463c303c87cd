-- The parts of a chord that have come, in their order. A statement after the one that joined: of two who join at the same
-- time at least the later one sees both.
-- params: group_id text
select place, size, result from outlast_chord_part where group_id = $1 order by place

-- The parts of a chord that have come, in their order, and whether its body is still to be sent. A statement after the one
-- that joined, in its transaction: of two who join at the same time the later one sees both, and the other only its own.
-- params: group_id text
select place, size, result, exists (select 1 from outlast_chord where group_id = $1) as is_open
from outlast_chord_part where group_id = $1 order by place

-- The parts of a chord that have arrived, in their order, and whether its body is still to be sent. Runs after the statement
-- that joined, in its transaction: of two sessions that join at the same time the later one sees both parts, the other one.
-- params: group_id text
select place, size, result, is_signed, exists (select 1 from outlast_chord where group_id = $1) as is_open
from outlast_chord_part where group_id = $1 order by place

-- The results of a chord in their order, for the part that found all of them counted.
-- params: group_id text
select result, is_signed from outlast_chord_part where group_id = $1 and result is not null order by place

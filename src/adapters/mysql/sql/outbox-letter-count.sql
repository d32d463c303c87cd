-- How many dead letters there are.
-- params: none
select count(*) as count from outlast_dead_letter

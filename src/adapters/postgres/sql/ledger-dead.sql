-- How many tasks are dead letters of workers.
-- params: none
select count(*)::text as dead from outlast_task where state = 'dead'

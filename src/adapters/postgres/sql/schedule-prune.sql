-- Deletes schedules of configurations for which no process has vouched for so long.
-- params: age_ms bigint
delete from outlast_schedule where origin = 'config' and declared_until_ms < (select (extract(epoch from clock_timestamp()) * 1000)::bigint) - $1

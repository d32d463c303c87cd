-- Deletes schedules of configurations for which no process has vouched for so long.
-- params: age_ms bigint
delete from outlast_schedule where origin = 'config' and declared_until_ms < (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) - $1

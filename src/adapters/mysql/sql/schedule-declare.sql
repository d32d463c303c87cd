-- A running process has this schedule in its configuration: it counts for as long again. The version stays, so that no
-- scheduler has to look again. Of many processes one writes.
-- params: name text, digest text, ttl_ms bigint, refresh_ms bigint
update outlast_schedule set declared_until_ms = (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) + $3
where name = $1 and digest = $2 and origin = 'config' and declared_until_ms < (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) + $3 - $4

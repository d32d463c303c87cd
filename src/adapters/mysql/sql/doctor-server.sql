-- Version and time of the server.
-- params: none
select version() as version, timestampdiff(microsecond, '1970-01-01 00:00:00', utc_timestamp(6)) div 1000 as now_ms

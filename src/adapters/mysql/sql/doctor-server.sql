-- What the server is, and what time it has.
-- params: none
select version() as version, cast(unix_timestamp(now(6)) * 1000 as signed) as now_ms

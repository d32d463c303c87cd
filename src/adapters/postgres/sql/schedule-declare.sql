-- A running process has these schedules in its configuration: they count for as long again. The version stays, so that no
-- scheduler has to look again. Of many processes one writes.
-- params: names text[], digests text[], ttl_ms bigint, refresh_ms bigint
update outlast_schedule s set declared_until_ms = (select (extract(epoch from clock_timestamp()) * 1000)::bigint) + $3
from unnest($1::text[], $2::text[]) as own (name, digest)
where s.name = own.name and s.digest = own.digest and s.origin = 'config'
  and s.declared_until_ms < (select (extract(epoch from clock_timestamp()) * 1000)::bigint) + $3 - $4

-- Entries that whoever wrote them has not carried out in time.
-- params: older_than_ms bigint, limit int
select key, entry from outlast_after
where created_at <= statement_timestamp() - $1::bigint * interval '1 millisecond'
order by created_at, key limit $2

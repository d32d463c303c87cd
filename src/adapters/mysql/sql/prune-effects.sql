-- Deletes expired steps of keys.
-- params: limit int
delete from outlast_effect where ends_at < utc_timestamp(6) order by ends_at limit $1

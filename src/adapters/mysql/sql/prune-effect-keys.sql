-- Deletes expired keys.
-- params: limit int
delete from outlast_effect_key where ends_at < utc_timestamp(6) order by ends_at limit $1

-- Steps of a key stay until they expire when their task is forgotten.
-- params: ids text list
update outlast_effect set ends_at = utc_timestamp(6) + interval ttl_ms * 1000 microsecond
where task_id in ($1) and ttl_ms is not null

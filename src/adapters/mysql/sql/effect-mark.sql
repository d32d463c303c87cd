-- Marks a step as being done. A duplicate: it exists already; effect-find.sql has its value.
-- params: effect_key text, step text, task_id text, epoch text, ttl_ms text
insert into outlast_effect (effect_key, step, task_id, epoch, ttl_ms, created_at)
values ($1, $2, $3, cast($4 as signed), cast($5 as signed), utc_timestamp(6))

-- Marks a step as being done. No row: it is there already; effect-find.sql has its value.
-- params: effect_key text, step text, task_id text, epoch text, ttl_ms text
insert into outlast_effect (effect_key, step, task_id, epoch, ttl_ms)
values ($1::text, $2::text, $3::text, $4::text::bigint, $5::text::bigint)
on conflict (effect_key, step) do nothing returning step

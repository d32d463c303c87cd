-- Keeps the value of a step, in the same transaction as its effect.
-- params: id text, step text, value text
update outlast_step set value = decode($3::text, 'base64') where task_id = $1::text and step = $2::text

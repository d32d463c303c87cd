-- Keeps the value of a step of a task whose ledger is elsewhere, in the same transaction as its effect.
-- params: id text, step text, value text
with also as (
  update outlast_effect set value = decode($3::text, 'base64') where effect_key = $1::text and step = $2::text
)
update outlast_step set value = decode($3::text, 'base64') where task_id = $1::text and step = $2::text

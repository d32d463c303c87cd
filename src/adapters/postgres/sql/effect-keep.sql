-- Keeps the value of a step, in the same transaction as its effect.
-- params: effect_key text, step text, value text
update outlast_effect set value = decode($3::text, 'base64') where effect_key = $1::text and step = $2::text

-- Keeps the value of a step, in the same transaction as its effect.
-- params: effect_key text, step text, value text
update outlast_effect set value = from_base64($3) where effect_key = $1 and step = $2

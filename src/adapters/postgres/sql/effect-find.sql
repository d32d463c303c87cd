-- The value of a step that was done before.
-- params: effect_key text, step text
select encode(value, 'base64') as value from outlast_effect where effect_key = $1::text and step = $2::text

-- The value of a step that was done before: as it is now, whatever an older snapshot says.
-- params: effect_key text, step text
select to_base64(value) as value from outlast_effect where effect_key = $1 and step = $2 lock in share mode

-- The value of a step that was done before: the current one, not that of an older snapshot.
-- params: effect_key text, step text
select to_base64(value) as value from outlast_effect where effect_key = $1 and step = $2 lock in share mode

-- The origin under which the effects of a key are kept: the current one, not that of an older snapshot.
-- params: key_hash text
select origin from outlast_effect_key where key_hash = $1 for update

-- An operator resets a key: effects under it run anew from now on.
-- params: key_hash text
delete from outlast_effect_key where key_hash = $1

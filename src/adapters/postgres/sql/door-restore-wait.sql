-- The user's own statements wait as long as the user has decided.
-- params: before text
select set_config('lock_timeout', $1::text, true) as now

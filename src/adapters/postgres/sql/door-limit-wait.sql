-- Limits how long the door waits for its fence, and returns the user's own limit. That is read first, in a separate step:
-- in one list of columns the new value would be there already.
-- params: none
with b as materialized (select current_setting('lock_timeout') as before)
select b.before, set_config('lock_timeout', '5s', true) as now from b

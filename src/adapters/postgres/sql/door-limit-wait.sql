-- Limits how long the door waits for its fence, and says what the user's own limit was. That is read first, in a step of
-- its own: in one list of columns the new value would be there already.
-- params: none
with b as materialized (select current_setting('lock_timeout') as before)
select b.before, set_config('lock_timeout', '5s', true) as now from b

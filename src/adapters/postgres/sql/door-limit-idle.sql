-- Lets the server end a transaction that its process has forgotten, unless the user has decided otherwise.
-- params: none
select set_config('idle_in_transaction_session_timeout', '10s', true) as now
where current_setting('idle_in_transaction_session_timeout') = '0'

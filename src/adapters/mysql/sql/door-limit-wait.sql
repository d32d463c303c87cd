-- Limits how long the session waits for the lock of a row.
-- params: seconds text
set session innodb_lock_wait_timeout = cast($1 as unsigned)

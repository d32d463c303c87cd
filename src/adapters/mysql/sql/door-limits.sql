-- How long this session waits for locks, and how long it may stand idle, in seconds.
-- params: none
select cast(@@session.innodb_lock_wait_timeout as char) as lock_wait, cast(@@session.wait_timeout as char) as idle

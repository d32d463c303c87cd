-- How long this session waits for locks and may stand idle, in seconds, and whether it commits by itself.
-- params: none
select cast(@@session.innodb_lock_wait_timeout as char) as lock_wait, cast(@@session.wait_timeout as char) as idle,
  if(@@session.autocommit, '1', '0') as autocommit

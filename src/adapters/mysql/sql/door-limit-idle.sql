-- Lets the server end the session, and with it the transaction, that its process has forgotten. MySQL has no limit for
-- transactions alone, so it is set for the session and restored when the transaction has ended. So is autocommit: a deadlock
-- ends the whole transaction, and if a function swallows the error, its statements must not be committed one by one.
-- params: seconds text, autocommit text
set session wait_timeout = cast($1 as unsigned), session autocommit = cast($2 as unsigned)

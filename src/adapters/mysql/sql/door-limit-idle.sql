-- Lets the server end the session, and with it the transaction, that its process has forgotten. MySQL has no limit for
-- transactions alone, so it is set for the session and set back when the transaction has ended. So is autocommit: a deadlock
-- ends the whole transaction, and what a function does that swallows it must not be committed statement by statement.
-- params: seconds text, autocommit text
set session wait_timeout = cast($1 as unsigned), session autocommit = cast($2 as unsigned)

-- Lets the server end the session, and with it the transaction, that its process has forgotten. MySQL has no limit for
-- transactions alone, so it is set for the session and set back when the transaction has ended.
-- params: seconds text
set session wait_timeout = cast($1 as unsigned)

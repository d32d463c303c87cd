-- The longest statement this server takes; a longer one ends the connection and with it the caller's transaction.
-- params: none
select cast(@@max_allowed_packet as char) as bytes

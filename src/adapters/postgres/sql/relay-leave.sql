-- Deletes a relay that stopped, and relays that lapsed long ago.
-- params: relay text
delete from outlast_relay where id = $1 or lease_until < clock_timestamp() - interval '1 day'

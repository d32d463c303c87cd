-- The version string of the server.
-- params: none
select version() as version

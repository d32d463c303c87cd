-- What the server calls itself.
-- params: none
select version() as version

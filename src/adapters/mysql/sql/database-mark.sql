-- What distinguishes this database from others: its name, and when its tables were created, to the microsecond. Copies of it
-- on other nodes of a cluster are the same database.
-- params: none
select concat(database(), ' on ', @@hostname, ':', @@port) as name, database() as base, cast(m.applied_at as char) as applied
from outlast_migration m order by m.version limit 1000

-- Replication slots without a reader that hold back vacuum.
-- params: none
select slot_name as name, greatest(age(xmin), age(catalog_xmin))::text as transactions
from pg_replication_slots where not active and (xmin is not null or catalog_xmin is not null) order by slot_name

-- These stores serve beside this database, as broker and as ledger.
-- params: roles text[], stores text[]
insert into outlast_tier as t (role, store) select * from unnest($1::text[], $2::text[])
on conflict (role, store) do update set last_at = clock_timestamp()

-- Raises the generation of the ledger in this database when the server shows that it was restarted: a promoted standby, a
-- restored backup, a crash that lost asynchronous commits. The row itself may be such an older copy, so adding one to it is
-- not enough: the seconds of the clock only grow.
-- params: none
insert into outlast_generation as g (node, shown, generation)
values ('this database', (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text,
  extract(epoch from clock_timestamp())::bigint)
on conflict (node) do update set
  generation = greatest(g.generation + 1, excluded.generation), shown = excluded.shown, changed_at = clock_timestamp()
where g.shown <> excluded.shown

-- Whoever wants places under a key waits here for whoever is just taking some: the next statement sees what became of it.
-- params: key text, concurrency int
insert into outlast_admission (key, concurrency) values ($1, $2)
on conflict (key) do update set concurrency = excluded.concurrency, used_at = clock_timestamp()

-- A call that wants reservations under a key waits here for one that is just taking some: the next statement sees the outcome.
-- params: key text, concurrency int
insert into outlast_admission (key, concurrency) values ($1, $2)
on conflict (key) do update set concurrency = excluded.concurrency, used_at = clock_timestamp()

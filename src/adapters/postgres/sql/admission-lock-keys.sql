-- A call that ends reservations waits here for one that is just requesting some, and sees the outcome in the next statement.
-- In the order of the keys, to avoid deadlocks.
-- params: keys text[]
select key from outlast_admission where key = any($1::text[]) order by key for update

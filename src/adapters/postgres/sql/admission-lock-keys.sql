-- Whoever ends places waits here for whoever is just asking for one, and sees in the next statement what became of it. In the
-- order of the keys, so that two never wait for each other in a circle.
-- params: keys text[]
select key from outlast_admission where key = any($1::text[]) order by key for update

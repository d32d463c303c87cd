-- No worker takes from this queue until it is resumed.
-- params: queue text
insert into outlast_queue (name) values ($1) on conflict (name) do nothing returning name

-- A new schedule. No row: another process was first, or there are as many as there may be.
-- params: name text, version text, origin text, paused boolean, definition text, digest text, seal text, next_slot_ms bigint, due_ms bigint, last_slot_ms bigint, last_task text, fired bigint, missed bigint, error text, declared_until_ms bigint, disputed_until_ms bigint, limit int
insert into outlast_schedule (name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms,
  last_task, fired, missed, error, declared_until_ms, disputed_until_ms)
select $1, $2, $3, $4, $5, $6, $7, $8::bigint, $9::bigint, $10::bigint, $11, $12::bigint, $13::bigint, $14, $15::bigint, $16::bigint
where (select count(*) from outlast_schedule) < $17
on conflict (name) do nothing
returning 1 as written

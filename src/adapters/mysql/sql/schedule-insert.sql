-- A new schedule. No row: another process was first, or there are as many as there may be.
-- params: name text, version text, origin text, paused boolean, definition text, digest text, seal text, next_slot_ms bigint, due_ms bigint, last_slot_ms bigint, last_task text, fired bigint, missed bigint, error text, declared_until_ms bigint, disputed_until_ms bigint, limit int
insert ignore into outlast_schedule (name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms,
  last_task, fired, missed, error, declared_until_ms, disputed_until_ms)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16 from dual
where (select count(*) from (select name from outlast_schedule) as counted) < $17

-- Changes a schedule that this transaction has locked. What a process has vouched for meanwhile is not taken back.
-- params: name text, version text, origin text, paused boolean, definition text, digest text, seal text, next_slot_ms bigint, due_ms bigint, last_slot_ms bigint, last_task text, fired bigint, missed bigint, error text, declared_until_ms bigint, disputed_until_ms bigint
update outlast_schedule set version = $2, origin = $3, paused = $4, definition = $5, digest = $6, seal = $7, next_slot_ms = $8,
  due_ms = $9, last_slot_ms = $10, last_task = $11, fired = $12, missed = $13, error = $14, declared_until_ms = greatest(declared_until_ms, $15),
  disputed_until_ms = $16
where name = $1

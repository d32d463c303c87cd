-- breaking: no
-- Fences of tasks whose ledger is elsewhere: which run of a task may have effects in this database. Whoever has one holds
-- the lock of the row until its transaction ends.
create table outlast_fence (
  task_id text primary key,
  epoch bigint not null,
  run text not null,
  -- When the ledger is to be asked what has become of the task, and whether it was over the last time.
  look_at timestamptz not null,
  is_over boolean not null default false,
  updated_at timestamptz not null default clock_timestamp()
);
create index outlast_fence_look_at on outlast_fence (look_at);

-- Steps done through the effect-once door, with their values: those of tasks whose ledger is elsewhere, and those that
-- belong to a key of many tasks. The latter have a time to live from the moment their task is forgotten.
create table outlast_effect (
  effect_key text not null,
  step text not null,
  task_id text not null,
  epoch bigint not null,
  value bytea,
  ttl_ms bigint,
  ends_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  primary key (effect_key, step),
  constraint outlast_effect_end check (ends_at is null or ttl_ms is not null)
);
create index outlast_effect_task on outlast_effect (task_id);
create index outlast_effect_ends_at on outlast_effect (ends_at) where ends_at is not null;

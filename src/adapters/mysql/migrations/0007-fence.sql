-- breaking: no
-- Fences of tasks whose ledger is elsewhere: which run of a task may have effects in this database. Whoever has one holds
-- the lock of the row until its transaction ends.
create table outlast_fence (
  task_id varchar(160) not null primary key,
  epoch bigint not null,
  run varchar(160) not null,
  -- When the ledger is to be asked what has become of the task, and whether it was over the last time.
  look_at datetime(6) not null,
  is_over boolean not null default false,
  updated_at datetime(6) not null,
  key outlast_fence_look_at (look_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Steps done through the effect-once door, with their values. Those that belong to a key of many tasks have a time to live
-- from the moment their task is forgotten.
create table outlast_effect (
  effect_key varchar(160) not null,
  step varchar(160) not null,
  task_id varchar(160) not null,
  epoch bigint not null,
  value longblob,
  ttl_ms bigint,
  ends_at datetime(6),
  created_at datetime(6) not null,
  primary key (effect_key, step),
  key outlast_effect_task (task_id),
  key outlast_effect_ends_at (ends_at),
  constraint outlast_effect_end check (ends_at is null or ttl_ms is not null)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

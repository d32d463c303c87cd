-- breaking: no
-- Who has an idempotency key, and what came of it.
create table outlast_idempotency (
  key text primary key,
  state text not null,
  task_id text not null,
  epoch bigint not null,
  -- Of the input: the same key with another one is a mistake.
  digest text not null,
  -- JSON text; null where there is no value.
  result bytea,
  held_at timestamptz not null default clock_timestamp(),
  -- When somebody last asked whether the holder is alive.
  reviewed_at timestamptz not null default clock_timestamp(),
  -- Of a result, or of a lease. A key that a task holds has no time of its own: it follows its task.
  expires_at timestamptz,
  -- Tasks that met it held, with how often they asked.
  waiters jsonb not null default '{}',
  constraint outlast_idempotency_state check (state in ('held', 'done')),
  constraint outlast_idempotency_held check (state <> 'held' or result is null),
  constraint outlast_idempotency_done check (state <> 'done' or expires_at is not null)
);
create index outlast_idempotency_expires_at on outlast_idempotency (expires_at) where expires_at is not null;
create index outlast_idempotency_reviewed_at on outlast_idempotency (reviewed_at) where expires_at is null;

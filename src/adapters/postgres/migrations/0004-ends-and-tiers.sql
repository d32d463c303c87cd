-- breaking: no
-- Steps of workflows that are never sent, because the task `of_id` ended without a result: their waiters read it here.
create table outlast_never_sent (
  task_id text primary key,
  of_id text not null,
  ending text not null,
  -- JSON text `{ type, message, traceback }`.
  error bytea not null,
  keep_until timestamptz not null
);
create index outlast_never_sent_keep_until on outlast_never_sent (keep_until);

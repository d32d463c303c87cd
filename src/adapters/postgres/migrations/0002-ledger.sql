-- breaking: no
-- The ledger: who runs what, under which epoch. One row from arrival to tombstone.
create table outlast_task (
  id text primary key,
  seq bigint generated always as identity,
  name text not null,
  queue text not null,
  priority smallint not null,
  payload_version smallint not null,
  body bytea not null,
  options bytea not null,
  -- Null on a tombstone that came before its task: nothing is known of the bytes.
  digest text,
  eta timestamptz,
  expires_at timestamptz,
  state text not null,
  epoch bigint not null default 0,
  run text,
  owner text,
  failures integer not null default 0,
  crashes integer not null default 0,
  crash_budget integer not null default 5,
  -- Two crashes on record, or one crash from death: it runs beside no other such task.
  suspect boolean not null generated always as (crashes > 0 and crashes >= least(2, crash_budget)) stored,
  due timestamptz not null default clock_timestamp(),
  checkpoint bytea,
  checkpoint_epoch bigint not null default 0,
  checkpoint_seq bigint not null default 0,
  -- The last run that was settled, and by which step: a step repeated after a lost reply finds itself here.
  settled_run text,
  settled_as text,
  ending text,
  result bytea,
  reason text,
  error bytea,
  version integer not null default 0,
  history bytea not null default '',
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  keep_until timestamptz,
  constraint outlast_task_state check (state in ('waiting', 'running', 'done', 'dead', 'cancelled')),
  constraint outlast_task_ending check (ending in ('done', 'discarded', 'dead', 'cancelled', 'expired')),
  constraint outlast_task_owned check ((state = 'running') = (owner is not null)),
  constraint outlast_task_begun check (state <> 'running' or (run is not null and epoch > 0)),
  constraint outlast_task_ended check (
    (state in ('done', 'dead', 'cancelled')) = (ending is not null)
    and (ending is null) = (ended_at is null)
  ),
  -- Only what is over and was not a death may ever be forgotten.
  constraint outlast_task_kept check ((state in ('done', 'cancelled')) = (keep_until is not null))
);
create index outlast_task_waiting on outlast_task (queue, priority, due, seq) where state = 'waiting' and not suspect;
create index outlast_task_suspected on outlast_task (queue, priority, due, seq) where state = 'waiting' and suspect;
create index outlast_task_running on outlast_task (owner) where state = 'running';
create index outlast_task_dead on outlast_task (ended_at, id) where state = 'dead';
create index outlast_task_kept_until on outlast_task (keep_until) where keep_until is not null;
create index outlast_task_recent on outlast_task (created_at);
alter table outlast_task set (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
);

-- One row per incarnation of a worker process, with one deadline for all it runs.
create table outlast_worker (
  id text primary key,
  process text not null,
  host text not null,
  pid integer not null,
  state text not null default 'open',
  lease_ms integer not null,
  deadline timestamptz not null,
  opened_at timestamptz not null default clock_timestamp(),
  constraint outlast_worker_state check (state in ('open', 'closed'))
);
create index outlast_worker_process on outlast_worker (process);

-- Steps done through the effect-once door, with their values.
create table outlast_step (
  task_id text not null,
  step text not null,
  epoch bigint not null,
  value bytea,
  created_at timestamptz not null default clock_timestamp(),
  primary key (task_id, step)
);

-- What must follow a terminal step but lives elsewhere.
create table outlast_after (
  key text primary key,
  entry bytea not null,
  created_at timestamptz not null default clock_timestamp()
);
create index outlast_after_created_at on outlast_after (created_at);

-- How many tasks ended and were forgotten since, so that nothing is lost from the sums.
create table outlast_counter (
  queue text not null,
  name text not null,
  ending text not null,
  count bigint not null,
  primary key (queue, name, ending)
);

-- One line of a task's history, as JSON text. `error` is JSON text already, or null. Volatile, as the clock in it is: only
-- so does the planner write it into the statement instead of calling it for every row.
create function outlast_line(step text, epoch bigint, worker text, error bytea) returns bytea
language sql volatile as $$
  select convert_to(
      '{"at":"' || to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        || '","step":"' || step || '","epoch":' || epoch
        || coalesce(',"worker":"' || worker || '"', ''),
      'UTF8')
    || coalesce(convert_to(',"error":', 'UTF8') || error, ''::bytea)
    || convert_to(E'}\n', 'UTF8')
$$;

-- History is for people: it grows with every attempt, so it stops growing somewhere.
create function outlast_history(history bytea, line bytea) returns bytea
language sql immutable as $$
  select case when octet_length(history) > 262144 then history else history || line end
$$;

-- breaking: no
-- Admission: how much may come in, and how many may run at once, by key.

-- The rate of a key is one time, in microseconds since 1970: when all that was taken has come back.
create table outlast_admission (
  key text primary key,
  tat_us bigint not null default 0,
  -- The last call: when it asked, and how many it was granted.
  asked_us bigint not null default 0,
  granted bigint not null default 0,
  -- The rate as it was last asked for; null: only places were.
  interval_us bigint,
  burst bigint,
  rate_limit bigint,
  per_ms float8,
  concurrency integer,
  rejected bigint not null default 0,
  used_at timestamptz not null default clock_timestamp(),
  constraint outlast_admission_rate check (
    (interval_us is null) = (burst is null) and (interval_us is null) = (rate_limit is null)
    and (interval_us is null) = (per_ms is null) and interval_us > 0 and burst > 0)
);

-- Places of runs. They count as long as they are here; one whose run is over is swept away.
create table outlast_place (
  key text not null,
  task_id text not null,
  run text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (key, task_id, run)
);

-- Tasks that found no place, to be woken in their order.
create table outlast_place_wanted (
  key text not null,
  task_id text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (key, task_id)
);
create index outlast_place_wanted_since on outlast_place_wanted (key, since);

-- Permits asked for before a transaction. The first task that names one has it.
create table outlast_permit (
  token text primary key,
  task_id text,
  ends_at timestamptz not null
);

-- breaking: no
-- What the tasks of handlers promise, as the last worker that opened has said it.
create table outlast_objective (
  name text primary key,
  success numeric,
  within_ms bigint,
  latency numeric
);

-- What happened to tasks: each step adds rows in its own statement, and never changes one, so that no step waits for another. The
-- housekeeper adds them up. `at` is a minute, or -infinity for a task without an objective.
create table outlast_tally (
  name text not null,
  queue text not null,
  figure text not null,
  at timestamptz not null,
  count bigint not null
);
alter table outlast_tally set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- The sums: of minutes, of hours that are over for long, and of the rest since the beginning (-infinity).
create table outlast_tally_sum (
  name text not null,
  queue text not null,
  figure text not null,
  at timestamptz not null,
  count bigint not null,
  primary key (name, queue, figure, at)
);

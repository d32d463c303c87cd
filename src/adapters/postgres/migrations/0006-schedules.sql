-- breaking: no
-- Schedules. The advance of a slot and the outbox row of its task are one transaction. Times are milliseconds since 1970.
create table outlast_schedule (
  name text primary key,
  -- Drawn anew by every change: a change is written only by a process that has seen the row as it is.
  version text not null,
  origin text not null check (origin in ('config', 'api')),
  paused boolean not null default false,
  definition text not null,
  -- SHA-256 of the definition, as hexadecimal text.
  digest text not null,
  seal text,
  -- The first slot that has neither fired nor been skipped; null: there is no further one.
  next_slot_ms bigint,
  -- When a scheduler looks at it next: at its slot, later after an error or behind a task that is not over.
  due_ms bigint,
  last_slot_ms bigint,
  last_task text,
  fired bigint not null default 0,
  missed bigint not null default 0,
  error text,
  -- Of a schedule of a configuration: how long a running process has vouched for it.
  declared_until_ms bigint,
  disputed_until_ms bigint,
  constraint outlast_schedule_declared check ((origin = 'config') = (declared_until_ms is not null)),
  constraint outlast_schedule_due check (due_ms is null or next_slot_ms is not null)
);
create index outlast_schedule_due on outlast_schedule (due_ms) where not paused;

-- breaking: no
-- Schedules. The advance of a slot and the outbox row of its task are one transaction. Times are milliseconds since 1970.
create table outlast_schedule (
  name varchar(128) not null primary key,
  -- Drawn anew by every change: a change is written only by a process that has seen the row as it is.
  version varchar(64) not null,
  origin varchar(8) not null check (origin in ('config', 'api')),
  paused boolean not null default false,
  definition mediumtext not null,
  -- SHA-256 of the definition, as hexadecimal text.
  digest varchar(64) not null,
  seal varchar(255),
  -- The first slot that has neither fired nor been skipped; null: there is no further one.
  next_slot_ms bigint,
  -- When a scheduler looks at it next: at its slot, later after an error or behind a task that is not over.
  due_ms bigint,
  last_slot_ms bigint,
  last_task varchar(128),
  fired bigint not null default 0,
  missed bigint not null default 0,
  error text,
  -- Of a schedule of a configuration: how long a running process has vouched for it.
  declared_until_ms bigint,
  disputed_until_ms bigint,
  constraint outlast_schedule_declared check ((origin = 'config') = (declared_until_ms is not null)),
  constraint outlast_schedule_next check (due_ms is null or next_slot_ms is not null),
  key outlast_schedule_due (paused, due_ms)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- breaking: no
-- What operators tell workers: queues that are paused, and workers that are to end.
create table outlast_queue (
  -- A queue that is not here is not paused.
  name text primary key,
  paused_at timestamptz not null default clock_timestamp()
);
alter table outlast_worker
  -- What it takes from, as it said last; none before it has said so, and none while it drains.
  add column queues text[] not null default '{}',
  add column draining boolean not null default false;

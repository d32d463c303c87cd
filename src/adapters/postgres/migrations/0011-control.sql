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

-- Progress too large for the ledger, in parts. The ledger refers to it by epoch, sequence, size and digest, and only when
-- it is all there: what nobody refers to is deleted by a resurrector.
create table outlast_checkpoint (
  task_id text not null,
  epoch bigint not null,
  seq bigint not null,
  part integer not null,
  data bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (task_id, epoch, seq, part)
);

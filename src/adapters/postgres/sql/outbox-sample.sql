-- Figures of the outbox, of the tasks that wait in the ledger beside it, and of the relay's dead letters, each from its own
-- index. `claims` and `deaths` are the condition of the index of rows that came back.
-- How long a row has been due is counted from the first moment on: a retry or a deferral changes its `available_at` only.
-- Tasks are moved in the order in which they became due, so of each queue and priority only the first ones are read.
-- Rows in a format this version does not know are counted separately: a relay must be upgraded. The 2 is only the constant
-- of their index.
-- params: known_format int
with pending as materialized (
  -- Rows with an ordering key have an index of their own.
  select count(*) as total, count(*) filter (where available_at <= statement_timestamp()) as due
  from outlast_outbox where state = 'pending' and ordering_key is null
  union all
  select count(*), count(*) filter (where available_at <= statement_timestamp())
  from outlast_outbox where state = 'pending' and ordering_key is not null
), again as materialized (
  select count(*) filter (where available_at > statement_timestamp() and retries > 0) as backoff,
    count(*) filter (where available_at > statement_timestamp() and retries = 0) as deferred,
    min(greatest(created_at, eta)) as since
  from outlast_outbox where state = 'pending' and (claims > 0 or deaths > 0)
), head as materialized (
  select queue, priority, count(*) as total, count(*) filter (where due <= statement_timestamp()) as ready, min(due) as first
  from outlast_task where state = 'waiting' and not suspect group by queue, priority
), suspect as materialized (
  select count(*) as total, count(*) filter (where due <= statement_timestamp()) as ready, min(due) as first
  from outlast_task where state = 'waiting' and suspect
), refused as materialized (
  select count(*) as total, count(*) filter (where due <= statement_timestamp()) as ready, min(due) as first
  from outlast_task where state = 'refused'
), task as (
  select sum(total) as total, sum(ready) as ready
  from (select total, ready from head union all select total, ready from suspect union all select total, ready from refused) t
), since as (
  select min(available_at) as at from outlast_outbox where state = 'pending' and ordering_key is null and available_at <= statement_timestamp()
  union all
  select min(available_at) from outlast_outbox where state = 'pending' and ordering_key is not null and available_at <= statement_timestamp()
  union all
  select since from again
  union all
  select min(greatest(created_at, eta)) from outlast_outbox where state = 'claimed'
  union all
  select (
    select min(case when t.epoch = 0 then greatest(t.created_at, t.eta) else t.due end) from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = h.queue and t.priority = h.priority and t.due = h.first)
  from head h where h.ready > 0
  union all
  select first from suspect
  union all
  select first from refused
)
select
  (select sum(total) from pending)::text as pending,
  (select sum(due) from pending)::text as due,
  (select backoff from again)::text as backoff,
  (select deferred from again)::text as deferred,
  (select count(*) from outlast_outbox where state = 'claimed')::text as claimed,
  (select count(*) from outlast_outbox where state = 'sent')::text as sent,
  (select count(*) from outlast_outbox where schema_version > 2 and schema_version > $1)::text as unsupported,
  (select count(*) from outlast_dead_letter)::text as dead,
  (select coalesce(ready, 0) from task)::text as tasks_due,
  (select coalesce(total - ready, 0) from task)::text as tasks_later,
  (select count(*) from outlast_task where failures + crashes > 0 and state in ('waiting', 'running', 'dead')
    and state = 'waiting' and due > statement_timestamp())::text as tasks_backoff,
  (extract(epoch from clock_timestamp() - (select greatest(min(at), timestamptz 'epoch') from since where at <= statement_timestamp() having min(at) is not null)) * 1000)::bigint::text as oldest_ms

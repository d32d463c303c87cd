-- breaking: no
-- The outbox: tasks committed beside the data they are about, until a relay has moved them on.
-- Payloads are bytes, not jsonb: jsonb refuses NUL and lone surrogates, and a task argument must
-- never roll back a customer's order.
create table outlast_outbox (
  id bigint generated always as identity primary key,
  task_id text not null,
  task_name text not null,
  queue text not null,
  priority smallint not null,
  args bytea not null,
  kwargs bytea not null,
  embed bytea not null,
  options bytea not null,
  digest text not null,
  schema_version smallint not null,
  payload_version smallint not null,
  state text not null default 'pending',
  claims integer not null default 0,
  claim_token text,
  claimed_by text,
  claimed_until timestamptz,
  available_at timestamptz not null,
  eta timestamptz,
  expires_at timestamptz,
  idempotency_key text,
  -- How often this row was a dead letter before: a revival names the death it undoes.
  deaths integer not null default 0,
  retries smallint not null default 0,
  last_error text,
  error_history bytea not null default '',
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  constraint outlast_outbox_task unique (task_id),
  constraint outlast_outbox_state check (state in ('pending', 'claimed', 'sent')),
  -- Claimed means owned: token, owner and end of the claim are there, all or none.
  constraint outlast_outbox_claim check (
    (state = 'claimed') = (claim_token is not null)
    and (claim_token is null) = (claimed_by is null)
    and (claim_token is null) = (claimed_until is null)
  )
);
create index outlast_outbox_due on outlast_outbox (available_at, id) where state = 'pending';
create index outlast_outbox_claimed on outlast_outbox (claim_token) where state = 'claimed';
-- Rows live for moments: vacuum by count, not by share of a table that is empty most of the time.
alter table outlast_outbox set (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
);

-- Rows that could not be published, with everything they had.
create table outlast_dead_letter (
  task_id text primary key,
  version integer not null,
  task_name text not null,
  queue text not null,
  priority smallint not null,
  args bytea not null,
  kwargs bytea not null,
  embed bytea not null,
  options bytea not null,
  digest text not null,
  schema_version smallint not null,
  payload_version smallint not null,
  eta timestamptz,
  expires_at timestamptz,
  idempotency_key text,
  retries smallint not null,
  failure_reason text not null,
  error_history bytea not null,
  created_at timestamptz not null,
  dead_at timestamptz not null default clock_timestamp()
);
create index outlast_dead_letter_dead_at on outlast_dead_letter (dead_at, task_id);

-- One row per living relay. A relay whose lease lapsed owns nothing any more.
create table outlast_relay (
  id text primary key,
  lease_until timestamptz not null
);

-- Keys that make a second send give the first task's handle.
create table outlast_send_key (
  key text primary key,
  task_id text not null,
  fingerprint text not null,
  free_at timestamptz not null
);
create index outlast_send_key_free_at on outlast_send_key (free_at);

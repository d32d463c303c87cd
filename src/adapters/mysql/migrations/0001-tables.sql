-- breaking: no
-- Each statement is atomic by itself: an interrupted migration goes on with the first statement that is missing.

-- The outbox: tasks committed beside the data they are about, until a relay has published them.
-- Payloads are bytes, not JSON: MariaDB refuses JSON that is nested deeper than 32, and a task argument must never roll
-- back a customer's order. Names hold no spaces, so a collation that pads is exact for them; keys may be any text and
-- therefore are bytes. Times are UTC by the database's clock whatever the time zone of a session is.
-- There are no partial indexes, so the state leads. The columns after the id are there to count without reading rows.
create table outlast_outbox (
  id bigint not null auto_increment primary key,
  task_id varchar(160) not null,
  task_name varchar(160) not null,
  queue varchar(160) not null,
  priority smallint not null,
  args longblob not null,
  kwargs longblob not null,
  embed longblob not null,
  options longblob not null,
  digest varchar(64) not null,
  schema_version smallint not null,
  payload_version int not null,
  state enum('pending', 'claimed', 'sent') not null default 'pending',
  claims int not null default 0,
  claim_token varchar(64),
  claimed_by varchar(160),
  claimed_until datetime(6),
  available_at datetime(6) not null,
  eta datetime(6),
  expires_at datetime(6),
  idempotency_key varbinary(1020),
  -- How often this row was a dead letter before: a revival names the death it undoes.
  deaths int not null default 0,
  retries smallint not null default 0,
  last_error text,
  error_history longblob not null,
  created_at datetime(6) not null,
  updated_at datetime(6) not null,
  -- Rows with an ordering key have schema version 2.
  ordering_key varbinary(1020),
  parks_key boolean not null default false,
  -- Copies of the arguments that people may see.
  redacted_args longblob,
  redacted_kwargs longblob,
  unique key outlast_outbox_task (task_id),
  key outlast_outbox_ordered (ordering_key, id),
  key outlast_outbox_due (state, available_at, id, schema_version, retries, queue, claims, deaths, created_at, eta),
  -- Due rows without an ordering key, so that a look for them does not walk over a backlog under a key.
  key outlast_outbox_plain (ordering_key, state, available_at, id),
  -- Everything that shows whether a claim is over, so that the check touches no other rows.
  key outlast_outbox_claimed (claim_token, claimed_by, claimed_until),
  -- Claimed means owned: token, owner and end of the claim are set, all or none.
  constraint outlast_outbox_claim check (
    (state = 'claimed') = (claim_token is not null)
    and (claim_token is null) = (claimed_by is null)
    and (claim_token is null) = (claimed_until is null)
  )
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Rows that could not be published, with everything they had.
create table outlast_dead_letter (
  task_id varchar(160) not null primary key,
  version int not null,
  task_name varchar(160) not null,
  queue varchar(160) not null,
  priority smallint not null,
  args longblob not null,
  kwargs longblob not null,
  embed longblob not null,
  options longblob not null,
  digest varchar(64) not null,
  schema_version smallint not null,
  payload_version int not null,
  eta datetime(6),
  expires_at datetime(6),
  idempotency_key varbinary(1020),
  retries smallint not null,
  failure_reason text not null,
  error_history longblob not null,
  created_at datetime(6) not null,
  dead_at datetime(6) not null,
  -- A letter of an ordered row keeps its position: when revived, it comes before all later rows.
  row_id bigint,
  ordering_key varbinary(1020),
  parks_key boolean not null default false,
  redacted_args longblob,
  redacted_kwargs longblob,
  key outlast_dead_letter_dead_at (dead_at, task_id),
  key outlast_dead_letter_parked (ordering_key, parks_key),
  key outlast_dead_letter_created_at (created_at, task_id)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- One row per living relay. A relay whose lease lapsed owns nothing any more.
create table outlast_relay (
  id varchar(160) not null primary key,
  lease_until datetime(6) not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Keys that make a second send return the first task's handle, by their SHA-256. The token distinguishes a send that has
-- just taken a key from one that took it before.
create table outlast_send_key (
  key_hash varchar(64) not null primary key,
  task_id varchar(160) not null,
  fingerprint varchar(64) not null,
  token varchar(64) not null,
  free_at datetime(6) not null,
  key outlast_send_key_free_at (free_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- What a send with an ordering key locks until its transaction ends, so that the order of ids is the order of commits.
-- The rows exist from the start and a key maps to one of them by its hash: rows made per key would have to be inserted,
-- where two transactions that wait for a third that rolls back end in a deadlock, and would have to be deleted.
create table outlast_ordering_key (
  slot smallint unsigned not null primary key
) engine = InnoDB;

insert into outlast_ordering_key (slot)
with recursive byte (n) as (select 0 union all select n + 1 from byte where n < 255)
select high.n * 256 + low.n from byte high cross join byte low;

-- How often a ledger elsewhere has lost its memory. Epochs begin above it, so that a fence never goes backwards.
create table outlast_generation (
  node varchar(255) not null primary key,
  -- The identity that the ledger showed when the generation was settled.
  shown varchar(160) not null,
  generation bigint not null,
  changed_at datetime(6) not null,
  constraint outlast_generation_positive check (generation >= 0)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Fences of tasks whose ledger is elsewhere: which run of a task may have effects in this database. A run that takes one
-- holds the lock of the row until its transaction ends.
create table outlast_fence (
  task_id varchar(160) not null primary key,
  epoch bigint not null,
  run varchar(160) not null,
  -- When to ask the ledger for the state of the task, and whether it was over the last time.
  look_at datetime(6) not null,
  is_over boolean not null default false,
  updated_at datetime(6) not null,
  key outlast_fence_look_at (look_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Steps done through the effect-once door, with their values. Steps that belong to a key of many tasks expire some time
-- after their task is forgotten.
create table outlast_effect (
  effect_key varchar(160) not null,
  step varchar(160) not null,
  task_id varchar(160) not null,
  epoch bigint not null,
  value longblob,
  ttl_ms bigint,
  ends_at datetime(6),
  created_at datetime(6) not null,
  primary key (effect_key, step),
  key outlast_effect_task (task_id),
  key outlast_effect_ends_at (ends_at),
  constraint outlast_effect_end check (ends_at is null or ttl_ms is not null)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Progress too large for the ledger, in parts. The ledger refers to it by epoch, sequence, size and digest, and only when
-- it is complete: a resurrector deletes parts that the ledger does not refer to.
create table outlast_checkpoint (
  task_id varchar(160) not null,
  epoch bigint not null,
  seq bigint not null,
  part int not null,
  data longblob not null,
  created_at datetime(6) not null,
  primary key (task_id, epoch, seq, part)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- The origin under which the effects of an idempotency key are kept, in the database of the effects: it must be known there
-- also when the ledger, and with it the store of the keys, has changed.
create table outlast_effect_key (
  -- SHA-256 of the key, as hexadecimal text.
  key_hash varchar(64) not null primary key,
  -- The task that took the key when it was new.
  origin varchar(160) not null,
  -- After this the key starts anew.
  ends_at datetime(6) not null,
  key outlast_effect_key_ends_at (ends_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Brokers and ledgers that have served beside this database, by their addresses: a store that is not configured any more may
-- still have tasks.
create table outlast_tier (
  role varchar(16) not null,
  -- SHA-256 of `store`, as hexadecimal text: an address may be longer than what an index takes.
  store_hash varchar(64) not null,
  store text not null,
  last_at datetime(6) not null,
  primary key (role, store_hash)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

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

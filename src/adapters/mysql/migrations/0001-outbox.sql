-- breaking: no
-- The outbox: tasks committed beside the data they are about, until a relay has published them.
-- Payloads are bytes, not JSON: MariaDB refuses JSON that is nested deeper than 32, and a task argument must never roll
-- back a customer's order. Names hold no spaces, so a collation that pads is exact for them; keys are anybody's text and
-- therefore bytes. Times are UTC by the database's clock whatever the time zone of a session is.
-- There are no partial indexes, so the state leads. What follows the id is there for counting without the rows.
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
  unique key outlast_outbox_task (task_id),
  key outlast_outbox_due (state, available_at, id, schema_version, retries, queue),
  -- All that says whether a claim is over, so that nobody else's rows are touched to find out.
  key outlast_outbox_claimed (claim_token, claimed_by, claimed_until),
  -- Claimed means owned: token, owner and end of the claim are there, all or none.
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
  key outlast_dead_letter_dead_at (dead_at, task_id)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- One row per living relay. A relay whose lease lapsed owns nothing any more.
create table outlast_relay (
  id varchar(160) not null primary key,
  lease_until datetime(6) not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Keys that make a second send give the first task's handle, by their SHA-256. The token tells a send that has just taken
-- a key from one that took it before.
create table outlast_send_key (
  key_hash varchar(64) not null primary key,
  task_id varchar(160) not null,
  fingerprint varchar(64) not null,
  token varchar(64) not null,
  free_at datetime(6) not null,
  key outlast_send_key_free_at (free_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

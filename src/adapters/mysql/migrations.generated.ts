// Written by scripts/embed-assets.mjs from the .sql files; edit those and run npm run build.
interface Migration {
  readonly version: number;
  readonly name: string;
  readonly breaking: boolean;
  /** False: each statement is run by itself, and can be repeated. */
  readonly inTransaction: boolean;
  readonly statements: readonly string[];
}

export const MIGRATIONS: readonly [Migration, ...Migration[]] = [
  {
    version: 1, name: '0001-tables', breaking: false, inTransaction: true,
    statements: [
      `create table outlast_outbox (
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
  deaths int not null default 0,
  retries smallint not null default 0,
  last_error text,
  error_history longblob not null,
  created_at datetime(6) not null,
  updated_at datetime(6) not null,
  ordering_key varbinary(1020),
  parks_key boolean not null default false,
  redacted_args longblob,
  redacted_kwargs longblob,
  unique key outlast_outbox_task (task_id),
  key outlast_outbox_ordered (ordering_key, id),
  key outlast_outbox_due (state, available_at, id, schema_version, retries, queue, claims, deaths, created_at, eta),
  key outlast_outbox_plain (ordering_key, state, available_at, id),
  key outlast_outbox_claimed (claim_token, claimed_by, claimed_until),
  constraint outlast_outbox_claim check (
    (state = 'claimed') = (claim_token is not null)
    and (claim_token is null) = (claimed_by is null)
    and (claim_token is null) = (claimed_until is null)
  )
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_dead_letter (
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
  row_id bigint,
  ordering_key varbinary(1020),
  parks_key boolean not null default false,
  redacted_args longblob,
  redacted_kwargs longblob,
  key outlast_dead_letter_dead_at (dead_at, task_id),
  key outlast_dead_letter_parked (ordering_key, parks_key),
  key outlast_dead_letter_created_at (created_at, task_id)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_relay (
  id varchar(160) not null primary key,
  lease_until datetime(6) not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_send_key (
  key_hash varchar(64) not null primary key,
  task_id varchar(160) not null,
  fingerprint varchar(64) not null,
  token varchar(64) not null,
  free_at datetime(6) not null,
  key outlast_send_key_free_at (free_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_ordering_key (
  slot smallint unsigned not null primary key
) engine = InnoDB`,
      `insert into outlast_ordering_key (slot)
with recursive byte (n) as (select 0 union all select n + 1 from byte where n < 255)
select high.n * 256 + low.n from byte high cross join byte low`,
      `create table outlast_generation (
  node varchar(255) not null primary key,
  shown varchar(160) not null,
  generation bigint not null,
  changed_at datetime(6) not null,
  constraint outlast_generation_positive check (generation >= 0)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_fence (
  task_id varchar(160) not null primary key,
  epoch bigint not null,
  run varchar(160) not null,
  look_at datetime(6) not null,
  is_over boolean not null default false,
  updated_at datetime(6) not null,
  key outlast_fence_look_at (look_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_effect (
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
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_checkpoint (
  task_id varchar(160) not null,
  epoch bigint not null,
  seq bigint not null,
  part int not null,
  data longblob not null,
  created_at datetime(6) not null,
  primary key (task_id, epoch, seq, part)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_effect_key (
  key_hash varchar(64) not null primary key,
  origin varchar(160) not null,
  ends_at datetime(6) not null,
  key outlast_effect_key_ends_at (ends_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_tier (
  role varchar(16) not null,
  store_hash varchar(64) not null,
  store text not null,
  last_at datetime(6) not null,
  primary key (role, store_hash)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
      `create table outlast_schedule (
  name varchar(128) not null primary key,
  version varchar(64) not null,
  origin varchar(8) not null check (origin in ('config', 'api')),
  paused boolean not null default false,
  definition mediumtext not null,
  digest varchar(64) not null,
  seal varchar(255),
  next_slot_ms bigint,
  due_ms bigint,
  last_slot_ms bigint,
  last_task varchar(128),
  fired bigint not null default 0,
  missed bigint not null default 0,
  error text,
  declared_until_ms bigint,
  disputed_until_ms bigint,
  constraint outlast_schedule_declared check ((origin = 'config') = (declared_until_ms is not null)),
  constraint outlast_schedule_next check (due_ms is null or next_slot_ms is not null),
  key outlast_schedule_due (paused, due_ms)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
    ],
  },
];

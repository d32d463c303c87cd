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
  deaths integer not null default 0,
  retries smallint not null default 0,
  last_error text,
  error_history bytea not null default '',
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  ordering_key text,
  parks_key boolean not null default false,
  redacted_args bytea,
  redacted_kwargs bytea,
  constraint outlast_outbox_task unique (task_id)
)`,
      `create index outlast_outbox_plain on outlast_outbox (available_at, id) where state = 'pending' and ordering_key is null`,
      `create index outlast_outbox_keyed on outlast_outbox (available_at, id) where state = 'pending' and ordering_key is not null`,
      `create index outlast_outbox_again on outlast_outbox (created_at) where state = 'pending' and (claims > 0 or deaths > 0)`,
      `create index outlast_outbox_claimed on outlast_outbox (claim_token) where state = 'claimed'`,
      `create index outlast_outbox_ordered on outlast_outbox (ordering_key, id) where ordering_key is not null`,
      `create index outlast_outbox_sent on outlast_outbox (available_at, id) where state = 'sent'`,
      `create index outlast_outbox_failing on outlast_outbox (task_name) include (retries) where retries > 0`,
      `create index outlast_outbox_unsupported on outlast_outbox (schema_version) where schema_version > 2`,
      `alter table outlast_outbox set (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
)`,
      `create table outlast_dead_letter (
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
  dead_at timestamptz not null default clock_timestamp(),
  row_id bigint,
  ordering_key text,
  parks_key boolean not null default false,
  redacted_args bytea,
  redacted_kwargs bytea
)`,
      `create index outlast_dead_letter_dead_at on outlast_dead_letter (dead_at, task_id)`,
      `create index outlast_dead_letter_parked on outlast_dead_letter (ordering_key) where parks_key`,
      `create index outlast_dead_letter_created_at on outlast_dead_letter (created_at, task_id)`,
      `create table outlast_relay (
  id text primary key,
  lease_until timestamptz not null
)`,
      `create table outlast_send_key (
  key text primary key,
  task_id text not null,
  fingerprint text not null,
  free_at timestamptz not null
)`,
      `create index outlast_send_key_free_at on outlast_send_key (free_at)`,
      `create table outlast_task (
  id text primary key,
  seq bigint generated always as identity,
  name text not null,
  queue text not null,
  priority smallint not null,
  payload_version smallint not null,
  body bytea not null,
  options bytea not null,
  digest text,
  eta timestamptz,
  expires_at timestamptz,
  state text not null,
  epoch bigint not null default 0,
  run text,
  owner text,
  failures integer not null default 0,
  crashes integer not null default 0,
  crash_budget integer not null default 5,
  suspect boolean not null generated always as (crashes > 0 and crashes >= least(2, crash_budget)) stored,
  due timestamptz not null default clock_timestamp(),
  checkpoint bytea,
  checkpoint_epoch bigint not null default 0,
  checkpoint_seq bigint not null default 0,
  settled_run text,
  settled_as text,
  ending text,
  result bytea,
  reason text,
  error bytea,
  version integer not null default 0,
  history bytea not null default '',
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  keep_until timestamptz,
  refused_at timestamptz,
  refused_by text
)`,
      `create index outlast_task_waiting on outlast_task (queue, priority, due, seq) where state = 'waiting' and not suspect`,
      `create index outlast_task_suspected on outlast_task (queue, priority, due, seq) where state = 'waiting' and suspect`,
      `create index outlast_task_running on outlast_task (owner) where state = 'running'`,
      `create index outlast_task_dead on outlast_task (ended_at, id) where state = 'dead'`,
      `create index outlast_task_kept_until on outlast_task (keep_until) where keep_until is not null`,
      `create index outlast_task_recent on outlast_task (created_at)`,
      `create index outlast_task_refused on outlast_task (queue, name, due, seq) where state = 'refused'`,
      `create index outlast_task_refused_at on outlast_task (refused_at) where state = 'refused'`,
      `create index outlast_task_failing on outlast_task (name) include (failures, crashes)
  where failures + crashes > 0 and state in ('waiting', 'running', 'dead')`,
      `create index outlast_task_withdrawn on outlast_task (ending) where state = 'cancelled'`,
      `alter table outlast_task set (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
)`,
      `create table outlast_worker (
  id text primary key,
  process text not null,
  host text not null,
  pid integer not null,
  state text not null default 'open',
  lease_ms integer not null,
  deadline timestamptz not null,
  opened_at timestamptz not null default clock_timestamp(),
  queues text[] not null default '{}',
  draining boolean not null default false,
  death text,
  constraint outlast_worker_state check (state in ('open', 'closed'))
)`,
      `create index outlast_worker_process on outlast_worker (process)`,
      `create table outlast_step (
  task_id text not null,
  step text not null,
  epoch bigint not null,
  value bytea,
  created_at timestamptz not null default clock_timestamp(),
  primary key (task_id, step)
)`,
      `create table outlast_after (
  key text primary key,
  entry bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  due timestamptz not null default clock_timestamp(),
  attempts integer not null default 0
)`,
      `create index outlast_after_due on outlast_after (due, key)`,
      `create table outlast_counter (
  queue text not null,
  name text not null,
  ending text not null,
  count bigint not null,
  primary key (queue, name, ending)
)`,
      `create function outlast_line(step text, epoch bigint, worker text, error bytea) returns bytea
language sql volatile as $$
  select convert_to(
      '{"at":"' || to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        || '","step":"' || step || '","epoch":' || epoch
        || coalesce(',"worker":"' || worker || '"', ''),
      'UTF8')
    || coalesce(convert_to(',"error":', 'UTF8') || error, ''::bytea)
    || convert_to(E'}\\n', 'UTF8')
$$`,
      `create function outlast_history(history bytea, line bytea) returns bytea
language sql immutable as $$
  select case when octet_length(history) > 262144 then history else history || line end
$$`,
      `create function outlast_follows(body bytea) returns boolean
language sql immutable as $$
  select octet_length(body) > 0 and substring(body from greatest(1, octet_length(body) - 60))
    <> convert_to('{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]', 'UTF8')
$$`,
      `create function outlast_follows(body bytea, options bytea) returns boolean
language sql immutable as $$
  select octet_length(body) > 0
    and (outlast_follows(body) or position(convert_to('"replyTo":', 'UTF8') in options) > 0)
$$`,
      `create function outlast_ended() returns trigger
language plpgsql as $$
declare
  sent outlast_task%rowtype := case when tg_op = 'UPDATE' and old.digest is not null then old else new end;
begin
  if outlast_follows(sent.body, sent.options) and new.reason is distinct from 'ERR_DIGEST' then
    insert into outlast_after (key, entry)
    values (
      new.id || '/ended:' || new.epoch,
      convert_to(json_build_object(
        'ended', new.ending, 'epoch', new.epoch, 'id', sent.id, 'name', sent.name, 'queue', sent.queue,
        'priority', sent.priority, 'version', sent.payload_version, 'digest', sent.digest,
        'etaMs', null, 'expiresMs', null,
        'body', translate(encode(sent.body, 'base64'), E'\\n', ''),
        'options', translate(encode(sent.options, 'base64'), E'\\n', '')
      )::text, 'UTF8'))
    on conflict (key) do nothing;
  end if;
  return null;
end
$$`,
      `create trigger outlast_task_ended after update on outlast_task for each row
  when (new.ending in ('dead', 'cancelled', 'expired') and old.ending is null)
  execute function outlast_ended()`,
      `create trigger outlast_task_ended_at_once after insert on outlast_task for each row
  when (new.ending in ('cancelled', 'expired'))
  execute function outlast_ended()`,
      `create trigger outlast_task_came_cancelled after update on outlast_task for each row
  when (old.digest is null and new.digest is not null and new.ending = 'cancelled')
  execute function outlast_ended()`,
      `create table outlast_chord_part (
  group_id text not null,
  place integer not null,
  size integer,
  task_id text not null,
  result bytea,
  is_signed boolean not null default false,
  joined_at timestamptz not null default clock_timestamp(),
  primary key (group_id, place)
)`,
      `create index outlast_chord_part_joined_at on outlast_chord_part (joined_at)`,
      `create table outlast_chord (
  group_id text primary key,
  since timestamptz not null,
  size integer,
  body text,
  parts integer not null default 0
)`,
      `create index outlast_chord_since on outlast_chord (since, group_id)`,
      `create function outlast_chord_opened() returns trigger
language plpgsql as $$
begin
  insert into outlast_chord as c (group_id, since, parts)
  values (new.group_id, new.joined_at, (new.result is not null)::integer)
  on conflict (group_id) do update set parts = c.parts + excluded.parts where excluded.parts > 0;
  return null;
end
$$`,
      `create trigger outlast_chord_part_joined after insert on outlast_chord_part for each row
  execute function outlast_chord_opened()`,
      `create trigger outlast_chord_part_repaired after update on outlast_chord_part for each row
  when (old.result is null and new.result is not null)
  execute function outlast_chord_opened()`,
      `create function outlast_chord_join(
  of_group text, at_place integer, of_size integer, by_task text, with_result bytea, signed boolean,
  out has_result boolean, out parts integer)
language plpgsql as $$
begin
  insert into outlast_chord_part as p (group_id, place, size, task_id, result, is_signed)
  values (of_group, at_place, of_size, by_task, with_result, signed)
  on conflict (group_id, place) do update
  set task_id = excluded.task_id, result = excluded.result, is_signed = excluded.is_signed, joined_at = clock_timestamp()
  where p.result is null and excluded.result is not null;
  -- A statement of its own: the trigger has counted before it begins.
  select p.result is not null, c.parts into has_result, parts
  from outlast_chord_part p left join outlast_chord c on c.group_id = p.group_id
  where p.group_id = of_group and p.place = at_place;
end
$$`,
      `create table outlast_generation (
  node text primary key,
  shown text not null,
  generation bigint not null,
  changed_at timestamptz not null default clock_timestamp(),
  constraint outlast_generation_positive check (generation >= 0)
)`,
      `insert into outlast_generation (node, shown, generation)
values ('this database', (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text, 0)`,
      `create table outlast_fence (
  task_id text primary key,
  epoch bigint not null,
  run text not null,
  look_at timestamptz not null,
  is_over boolean not null default false,
  updated_at timestamptz not null default clock_timestamp()
)`,
      `create index outlast_fence_look_at on outlast_fence (look_at)`,
      `create table outlast_effect (
  effect_key text not null,
  step text not null,
  task_id text not null,
  epoch bigint not null,
  value bytea,
  ttl_ms bigint,
  ends_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  primary key (effect_key, step),
  constraint outlast_effect_end check (ends_at is null or ttl_ms is not null)
)`,
      `create index outlast_effect_task on outlast_effect (task_id)`,
      `create index outlast_effect_ends_at on outlast_effect (ends_at) where ends_at is not null`,
      `create table outlast_idempotency (
  key text primary key,
  state text not null,
  task_id text not null,
  epoch bigint not null,
  digest text not null,
  result bytea,
  held_at timestamptz not null default clock_timestamp(),
  origin text,
  ttl_ms bigint,
  freed_by text,
  run text,
  reviewed_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  waiters jsonb not null default '{}',
  constraint outlast_idempotency_state check (state in ('held', 'done')),
  constraint outlast_idempotency_held check (state <> 'held' or result is null),
  constraint outlast_idempotency_done check (state <> 'done' or expires_at is not null)
)`,
      `create index outlast_idempotency_expires_at on outlast_idempotency (expires_at) where expires_at is not null`,
      `create index outlast_idempotency_reviewed_at on outlast_idempotency (reviewed_at) where expires_at is null`,
      `create table outlast_admission (
  key text primary key,
  tat_us bigint not null default 0,
  asked_us bigint not null default 0,
  granted bigint not null default 0,
  interval_us bigint,
  burst bigint,
  rate_limit bigint,
  per_ms float8,
  concurrency integer,
  rejected bigint not null default 0,
  used_at timestamptz not null default clock_timestamp(),
  constraint outlast_admission_rate check (
    (interval_us is null) = (burst is null) and (interval_us is null) = (rate_limit is null)
    and (interval_us is null) = (per_ms is null) and interval_us > 0 and burst > 0)
)`,
      `create table outlast_place (
  key text not null,
  task_id text not null,
  run text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (key, task_id, run)
)`,
      `create table outlast_place_wanted (
  key text not null,
  task_id text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (key, task_id)
)`,
      `create index outlast_place_wanted_since on outlast_place_wanted (key, since)`,
      `create table outlast_permit (
  token text primary key,
  task_id text,
  ends_at timestamptz not null
)`,
      `create table outlast_queue (
  name text primary key,
  paused_at timestamptz not null default clock_timestamp()
)`,
      `create table outlast_checkpoint (
  task_id text not null,
  epoch bigint not null,
  seq bigint not null,
  part integer not null,
  data bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (task_id, epoch, seq, part)
)`,
      `create table outlast_effect_key (
  key_hash text primary key,
  origin text not null,
  ends_at timestamptz not null
)`,
      `create index outlast_effect_key_ends_at on outlast_effect_key (ends_at)`,
      `create table outlast_tier (
  role text not null,
  store text not null,
  last_at timestamptz not null default clock_timestamp(),
  primary key (role, store)
)`,
      `create table outlast_moved (
  task_id text primary key
)`,
      `create table outlast_never_sent (
  task_id text primary key,
  of_id text not null,
  ending text not null,
  error bytea not null,
  keep_until timestamptz not null
)`,
      `create index outlast_never_sent_keep_until on outlast_never_sent (keep_until)`,
      `create table outlast_schedule (
  name text primary key,
  version text not null,
  origin text not null check (origin in ('config', 'api')),
  paused boolean not null default false,
  definition text not null,
  digest text not null,
  seal text,
  next_slot_ms bigint,
  due_ms bigint,
  last_slot_ms bigint,
  last_task text,
  fired bigint not null default 0,
  missed bigint not null default 0,
  error text,
  declared_until_ms bigint,
  disputed_until_ms bigint,
  constraint outlast_schedule_declared check ((origin = 'config') = (declared_until_ms is not null)),
  constraint outlast_schedule_due check (due_ms is null or next_slot_ms is not null)
)`,
      `create index outlast_schedule_due on outlast_schedule (due_ms) where not paused`,
      `create table outlast_objective (
  name text primary key,
  success numeric,
  within_ms bigint,
  latency numeric
)`,
      `create table outlast_tally (
  name text not null,
  queue text not null,
  figure text not null,
  at timestamptz not null,
  count bigint not null
)`,
      `alter table outlast_tally set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000)`,
      `create table outlast_tally_sum (
  name text not null,
  queue text not null,
  figure text not null,
  at timestamptz not null,
  count bigint not null,
  primary key (name, queue, figure, at)
)`,
    ],
  },
];

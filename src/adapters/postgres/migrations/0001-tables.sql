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
  -- Rows with an ordering key have schema version 2.
  ordering_key text,
  parks_key boolean not null default false,
  -- Copies of the arguments that people may see.
  redacted_args bytea,
  redacted_kwargs bytea,
  -- The states are pending, claimed and sent, and a claimed row has token, owner and end of the claim. There is no CHECK:
  -- every INSERT reads and prepares it anew, which was a fifth of what a task costs in the user's own transaction.
  constraint outlast_outbox_task unique (task_id)
);
-- Rows with an ordering key are looked up by key, and only the first of each. They have an index of their own, so that a look
-- for other rows does not walk over a backlog of them.
create index outlast_outbox_plain on outlast_outbox (available_at, id) where state = 'pending' and ordering_key is null;
create index outlast_outbox_keyed on outlast_outbox (available_at, id) where state = 'pending' and ordering_key is not null;
-- Rows that a relay has had before and that wait again: failed, deferred or given back, or once a dead letter. Since when they
-- are due is not in an index of due rows, whose time is that of the next attempt.
create index outlast_outbox_again on outlast_outbox (created_at) where state = 'pending' and (claims > 0 or deaths > 0);
create index outlast_outbox_claimed on outlast_outbox (claim_token) where state = 'claimed';
create index outlast_outbox_ordered on outlast_outbox (ordering_key, id) where ordering_key is not null;
-- Figures for people come from indexes, so that a table of millions is not read to count a few rows. Each holds only
-- unusual rows, and costs the others nothing.
create index outlast_outbox_sent on outlast_outbox (available_at, id) where state = 'sent';
create index outlast_outbox_failing on outlast_outbox (task_name) include (retries) where retries > 0;
create index outlast_outbox_unsupported on outlast_outbox (schema_version) where schema_version > 2;
-- Rows live for moments: vacuum by count, not by a share of a table that is empty most of the time.
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
  dead_at timestamptz not null default clock_timestamp(),
  -- A letter of an ordered row keeps its position: when revived, it comes before all later rows.
  row_id bigint,
  ordering_key text,
  parks_key boolean not null default false,
  redacted_args bytea,
  redacted_kwargs bytea
);
create index outlast_dead_letter_dead_at on outlast_dead_letter (dead_at, task_id);
create index outlast_dead_letter_parked on outlast_dead_letter (ordering_key) where parks_key;
create index outlast_dead_letter_created_at on outlast_dead_letter (created_at, task_id);

-- One row per living relay. A relay whose lease lapsed owns nothing any more.
create table outlast_relay (
  id text primary key,
  lease_until timestamptz not null
);

-- Keys that make a second send return the first task's handle.
create table outlast_send_key (
  key text primary key,
  task_id text not null,
  fingerprint text not null,
  free_at timestamptz not null
);
create index outlast_send_key_free_at on outlast_send_key (free_at);

-- The ledger: which worker runs which task, under which epoch. One row from arrival to tombstone.
create table outlast_task (
  id text primary key,
  seq bigint generated always as identity,
  name text not null,
  queue text not null,
  priority smallint not null,
  payload_version smallint not null,
  body bytea not null,
  options bytea not null,
  -- Null on a tombstone that came before its task: the bytes are unknown.
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
  -- Two crashes on record, or one crash from death: no two such tasks run at the same time.
  suspect boolean not null generated always as (crashes > 0 and crashes >= least(2, crash_budget)) stored,
  due timestamptz not null default clock_timestamp(),
  checkpoint bytea,
  checkpoint_epoch bigint not null default 0,
  checkpoint_seq bigint not null default 0,
  -- The last run that was settled, and by which step: a step repeated after a lost reply finds itself here.
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
  -- A task that a worker could not run is set aside: it has its own state, so that it neither stands in front of tasks
  -- that can run nor is read by workers that cannot run it.
  refused_at timestamptz,
  refused_by text
  -- There is no CHECK, as in the outbox: six of them were half of what an INSERT cost the server. A running task has an owner, a
  -- run and an epoch; one that is over has an ending and the time of it; only what is over and not dead is ever deleted.
);
create index outlast_task_waiting on outlast_task (queue, priority, due, seq) where state = 'waiting' and not suspect;
create index outlast_task_suspected on outlast_task (queue, priority, due, seq) where state = 'waiting' and suspect;
create index outlast_task_running on outlast_task (owner) where state = 'running';
create index outlast_task_dead on outlast_task (ended_at, id) where state = 'dead';
create index outlast_task_kept_until on outlast_task (keep_until) where keep_until is not null;
create index outlast_task_recent on outlast_task (created_at);
create index outlast_task_refused on outlast_task (queue, name, due, seq) where state = 'refused';
create index outlast_task_refused_at on outlast_task (refused_at) where state = 'refused';
create index outlast_task_failing on outlast_task (name) include (failures, crashes)
  where failures + crashes > 0 and state in ('waiting', 'running', 'dead');
create index outlast_task_withdrawn on outlast_task (ending) where state = 'cancelled';
-- A task is written three times. On the page where it is, only what changed goes to the log.
alter table outlast_task set (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000
);

-- One row per incarnation of a worker process, with one deadline for all it runs.
create table outlast_worker (
  id text primary key,
  process text not null,
  host text not null,
  pid integer not null,
  state text not null default 'open',
  lease_ms integer not null,
  deadline timestamptz not null,
  opened_at timestamptz not null default clock_timestamp(),
  -- The queues it takes from, as last reported; none before the first report, and none while it drains.
  queues text[] not null default '{}',
  draining boolean not null default false,
  -- How it ended, as its supervisor or a reaper knows it: a line for the history of each task that it was running.
  death text,
  constraint outlast_worker_state check (state in ('open', 'closed'))
);
create index outlast_worker_process on outlast_worker (process);

-- Steps done through the effect-once door, with their values.
create table outlast_step (
  task_id text not null,
  step text not null,
  epoch bigint not null,
  value bytea,
  created_at timestamptz not null default clock_timestamp(),
  primary key (task_id, step)
);

-- Follow-ups of a terminal step that are sent elsewhere. One that cannot be sent must neither be repeated every second nor
-- block the ones behind it: it is due again later, and its refusals are counted.
create table outlast_after (
  key text primary key,
  entry bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  due timestamptz not null default clock_timestamp(),
  attempts integer not null default 0
);
create index outlast_after_due on outlast_after (due, key);

-- How many tasks ended and were deleted since, so that nothing is lost from the sums.
create table outlast_counter (
  queue text not null,
  name text not null,
  ending text not null,
  count bigint not null,
  primary key (queue, name, ending)
);

-- One line of a task's history, as JSON text. `error` is JSON text already, or null. Volatile, as the clock in it is: only
-- then does the planner inline it instead of calling it for every row.
create function outlast_line(step text, epoch bigint, worker text, error bytea) returns bytea
language sql volatile as $$
  select convert_to(
      '{"at":"' || to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        || '","step":"' || step || '","epoch":' || epoch
        || coalesce(',"worker":"' || worker || '"', ''),
      'UTF8')
    || coalesce(convert_to(',"error":', 'UTF8') || error, ''::bytea)
    || convert_to(E'}\n', 'UTF8')
$$;

-- History is for people: it grows with every attempt, so its length is limited.
create function outlast_history(history bytea, line bytea) returns bytea
language sql immutable as $$
  select case when octet_length(history) > 262144 then history else history || line end
$$;

-- Workflows: the follow-ups of a task that did not end well, and the parts of chords.

-- False only if nothing can follow: the last bytes of a body are always the same then.
create function outlast_follows(body bytea) returns boolean
language sql immutable as $$
  select octet_length(body) > 0 and substring(body from greatest(1, octet_length(body) - 60))
    <> convert_to('{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]', 'UTF8')
$$;

-- False only if nothing can follow a task, and no sender waits for an answer of ours (Celery's reply_to).
create function outlast_follows(body bytea, options bytea) returns boolean
language sql immutable as $$
  select octet_length(body) > 0
    and (outlast_follows(body) or position(convert_to('"replyTo":', 'UTF8') in options) > 0)
$$;

-- Records that a task ended otherwise than done, so that its error links, its chord and a waiting sender are notified.
-- One trigger for every step that can end a task so: fail, bury, reap, cancel and begin. A body that is not what was
-- sent (ERR_DIGEST) names no follow-ups that may be trusted; a tombstone that came before its task has no bytes.
create function outlast_ended() returns trigger
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
        'body', translate(encode(sent.body, 'base64'), E'\n', ''),
        'options', translate(encode(sent.options, 'base64'), E'\n', '')
      )::text, 'UTF8'))
    on conflict (key) do nothing;
  end if;
  return null;
end
$$;
create trigger outlast_task_ended after update on outlast_task for each row
  when (new.ending in ('dead', 'cancelled', 'expired') and old.ending is null)
  execute function outlast_ended();
-- A message that came too late, or that was cancelled in the outbox: its first state is its last.
create trigger outlast_task_ended_at_once after insert on outlast_task for each row
  when (new.ending in ('cancelled', 'expired'))
  execute function outlast_ended();
-- A task that was cancelled before it came: only its message names the follow-ups.
create trigger outlast_task_came_cancelled after update on outlast_task for each row
  when (old.digest is null and new.digest is not null and new.ending = 'cancelled')
  execute function outlast_ended();

-- The parts of a chord's header that have arrived. A part without a result ended otherwise than done.
create table outlast_chord_part (
  group_id text not null,
  place integer not null,
  size integer,
  task_id text not null,
  result bytea,
  -- Whether the result comes from a signed task.
  is_signed boolean not null default false,
  joined_at timestamptz not null default clock_timestamp(),
  primary key (group_id, place)
);
create index outlast_chord_part_joined_at on outlast_chord_part (joined_at);

-- Chords that wait for parts, also those whose parts run elsewhere. A row is written when the header is sent or with the
-- first part, and deleted by the part that completes the chord. Parts of complete chords are kept for a day longer;
-- listing open chords need not read those.
create table outlast_chord (
  group_id text primary key,
  since timestamptz not null,
  -- As sent with the header; null: known only by its parts.
  size integer,
  body text,
  -- How many parts with a result have joined. Counted in its one row: the part that completes a chord need not read all others
  -- to know it.
  parts integer not null default 0
);
create index outlast_chord_since on outlast_chord (since, group_id);

-- The lock of the row lasts until the end of the transaction: of two sessions that join the same chord, the later one finds both
-- counted.
create function outlast_chord_opened() returns trigger
language plpgsql as $$
begin
  insert into outlast_chord as c (group_id, since, parts)
  values (new.group_id, new.joined_at, (new.result is not null)::integer)
  on conflict (group_id) do update set parts = c.parts + excluded.parts where excluded.parts > 0;
  return null;
end
$$;
create trigger outlast_chord_part_joined after insert on outlast_chord_part for each row
  execute function outlast_chord_opened();
create trigger outlast_chord_part_repaired after update on outlast_chord_part for each row
  when (old.result is null and new.result is not null)
  execute function outlast_chord_opened();

-- Counts a part of a chord, once, and returns how far the chord is: null where it is not open. A result replaces a
-- failure, never the other way round. A part whose result any sender may have chosen is marked: the body of its chord is
-- not signed.
create function outlast_chord_join(
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
$$;

-- How often a ledger elsewhere has lost its memory. Epochs begin above it, so that a fence never goes backwards.
create table outlast_generation (
  node text primary key,
  -- The identity that the ledger showed when the generation was settled.
  shown text not null,
  generation bigint not null,
  changed_at timestamptz not null default clock_timestamp(),
  constraint outlast_generation_positive check (generation >= 0)
);
-- The generation of the ledger in this database is 0 until another server serves it, or this one is restarted: then
-- the newest commits may be lost, and epochs go on above every one that was ever handed out.
insert into outlast_generation (node, shown, generation)
values ('this database', (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text, 0);

-- Fences of tasks whose ledger is elsewhere: which run of a task may have effects in this database. A run that takes one
-- holds the lock of the row until its transaction ends.
create table outlast_fence (
  task_id text primary key,
  epoch bigint not null,
  run text not null,
  -- When to ask the ledger for the state of the task, and whether it was over the last time.
  look_at timestamptz not null,
  is_over boolean not null default false,
  updated_at timestamptz not null default clock_timestamp()
);
create index outlast_fence_look_at on outlast_fence (look_at);

-- Steps done through the effect-once door, with their values: those of tasks whose ledger is elsewhere, and those that
-- belong to a key of many tasks. The latter expire some time after their task is forgotten.
create table outlast_effect (
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
);
create index outlast_effect_task on outlast_effect (task_id);
create index outlast_effect_ends_at on outlast_effect (ends_at) where ends_at is not null;

-- Which task holds an idempotency key, and with what outcome.
create table outlast_idempotency (
  key text primary key,
  state text not null,
  task_id text not null,
  epoch bigint not null,
  -- Of the input: the same key with another one is a mistake.
  digest text not null,
  -- JSON text; null if there is no value.
  result bytea,
  held_at timestamptz not null default clock_timestamp(),
  -- The origin under which the effects of the key are kept: the task that took the key when it was new.
  origin text,
  -- How long the origin is remembered when the holder ends without a result; null: not at all.
  ttl_ms bigint,
  -- The run that freed it, as `task@epoch`. While that is the holder, any task may take the key.
  freed_by text,
  -- The run that holds it: of two runs under one epoch only one may complete it.
  run text,
  -- When it was last checked whether the holder is alive.
  reviewed_at timestamptz not null default clock_timestamp(),
  -- The end of a result or of a lease. A key that a task holds does not expire: it follows its task.
  expires_at timestamptz,
  -- Tasks that found it held, with how often they asked.
  waiters jsonb not null default '{}',
  constraint outlast_idempotency_state check (state in ('held', 'done')),
  constraint outlast_idempotency_held check (state <> 'held' or result is null),
  constraint outlast_idempotency_done check (state <> 'done' or expires_at is not null)
);
create index outlast_idempotency_expires_at on outlast_idempotency (expires_at) where expires_at is not null;
create index outlast_idempotency_reviewed_at on outlast_idempotency (reviewed_at) where expires_at is null;

-- Admission: how much may come in, and how many may run at once, by key.

-- The rate of a key is one time, in microseconds since 1970: when everything taken has recovered.
create table outlast_admission (
  key text primary key,
  tat_us bigint not null default 0,
  -- The last call: when it asked, and how many it was granted.
  asked_us bigint not null default 0,
  granted bigint not null default 0,
  -- The last requested rate; null: only reservations were requested.
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
);

-- Reservations of runs. They count as long as they are here; one whose run is over is swept.
create table outlast_place (
  key text not null,
  task_id text not null,
  run text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (key, task_id, run)
);

-- Tasks that got no reservation, to be woken in their order.
create table outlast_place_wanted (
  key text not null,
  task_id text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (key, task_id)
);
create index outlast_place_wanted_since on outlast_place_wanted (key, since);

-- Permits obtained before a transaction. The first task that names one owns it.
create table outlast_permit (
  token text primary key,
  task_id text,
  ends_at timestamptz not null
);

-- Orders of operators for workers: queues that are paused, and workers that are to end.
create table outlast_queue (
  -- A queue that is not here is not paused.
  name text primary key,
  paused_at timestamptz not null default clock_timestamp()
);

-- Progress too large for the ledger, in parts. The ledger refers to it by epoch, sequence, size and digest, and only when
-- it is complete: a resurrector deletes parts that the ledger does not refer to.
create table outlast_checkpoint (
  task_id text not null,
  epoch bigint not null,
  seq bigint not null,
  part integer not null,
  data bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (task_id, epoch, seq, part)
);

-- What must outlast a change of the tier.
-- The origin under which the effects of an idempotency key are kept, in the database of the effects: it must be known there
-- also when the ledger, and with it the store of the keys, has changed.
create table outlast_effect_key (
  -- SHA-256 of the key, as hexadecimal text.
  key_hash text primary key,
  -- The task that took the key when it was new.
  origin text not null,
  -- After this the key starts anew.
  ends_at timestamptz not null
);
create index outlast_effect_key_ends_at on outlast_effect_key (ends_at);

-- Which stores have served beside this database: as broker, and as ledger. A store that is no longer configured may still
-- have tasks.
create table outlast_tier (
  role text not null,
  store text not null,
  last_at timestamptz not null default clock_timestamp(),
  primary key (role, store)
);

-- Tasks that a move between tiers has put into the outbox, while it lasts: if killed half-way, it puts in none twice.
create table outlast_moved (
  task_id text primary key
);

-- Steps of workflows that are never sent, because the task `of_id` ended without a result: their waiters read it here.
create table outlast_never_sent (
  task_id text primary key,
  of_id text not null,
  ending text not null,
  -- JSON text `{ type, message, traceback }`.
  error bytea not null,
  keep_until timestamptz not null
);
create index outlast_never_sent_keep_until on outlast_never_sent (keep_until);

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

-- What the tasks of handlers promise, as the last worker that opened has said it.
create table outlast_objective (
  name text primary key,
  success numeric,
  within_ms bigint,
  latency numeric
);

-- What happened to tasks: each step adds rows in its own statement, and never changes one, so that no step waits for another. The
-- housekeeper adds them up. `at` is a minute, or -infinity for a task without an objective.
create table outlast_tally (
  name text not null,
  queue text not null,
  figure text not null,
  at timestamptz not null,
  count bigint not null
);
alter table outlast_tally set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- The sums: of minutes, of hours that are over for long, and of the rest since the beginning (-infinity).
create table outlast_tally_sum (
  name text not null,
  queue text not null,
  figure text not null,
  at timestamptz not null,
  count bigint not null,
  primary key (name, queue, figure, at)
);

-- breaking: no
-- Order per key, and copies of the arguments that people may see. Rows with an ordering key have schema version 2, so
-- that a relay of before leaves them alone.
alter table outlast_outbox
  add column ordering_key text,
  add column parks_key boolean not null default false,
  add column redacted_args bytea,
  add column redacted_kwargs bytea;
create index outlast_outbox_ordered on outlast_outbox (ordering_key, id) where ordering_key is not null;

-- A letter of an ordered row keeps its place: revived, it stands before all that came after it.
alter table outlast_dead_letter
  add column row_id bigint,
  add column ordering_key text,
  add column parks_key boolean not null default false,
  add column redacted_args bytea,
  add column redacted_kwargs bytea;
create index outlast_dead_letter_parked on outlast_dead_letter (ordering_key) where parks_key;
create index outlast_dead_letter_created_at on outlast_dead_letter (created_at, task_id);

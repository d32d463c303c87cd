-- breaking: no
-- Order per key, and copies of the arguments that people may see. Rows with an ordering key have schema version 2, so
-- that a relay of before leaves them alone. Each statement is atomic by itself: a migration that was cut off goes on with
-- the first one that is not there.
alter table outlast_outbox
  add column ordering_key varbinary(1020),
  add column parks_key boolean not null default false,
  add column redacted_args longblob,
  add column redacted_kwargs longblob,
  add key outlast_outbox_ordered (ordering_key, id);

-- A letter of an ordered row keeps its place: revived, it stands before all that came after it.
alter table outlast_dead_letter
  add column row_id bigint,
  add column ordering_key varbinary(1020),
  add column parks_key boolean not null default false,
  add column redacted_args longblob,
  add column redacted_kwargs longblob,
  add key outlast_dead_letter_parked (ordering_key, parks_key),
  add key outlast_dead_letter_created_at (created_at, task_id);

-- What a send with an ordering key locks until its transaction ends, so that the order of ids is the order of commits.
-- The rows are here from the start and a key stands for one of them by its hash: rows made per key would have to be
-- inserted, where two who wait for a third that rolls back end in a deadlock, and to be cleared away.
create table outlast_ordering_key (
  slot smallint unsigned not null primary key
) engine = InnoDB;

insert into outlast_ordering_key (slot)
with recursive byte (n) as (select 0 union all select n + 1 from byte where n < 255)
select high.n * 256 + low.n from byte high cross join byte low;

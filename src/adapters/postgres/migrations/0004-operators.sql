-- breaking: no
-- Figures for people come from indexes, so that a table of millions is not read to count a few. Each holds only rows that
-- are out of the ordinary, and costs the others nothing.
create index outlast_outbox_sent on outlast_outbox (available_at, id) where state = 'sent';
create index outlast_outbox_failing on outlast_outbox (task_name) include (retries) where retries > 0;
create index outlast_outbox_unsupported on outlast_outbox (schema_version) where schema_version > 2;
create index outlast_task_failing on outlast_task (name) include (failures, crashes)
  where failures + crashes > 0 and state in ('waiting', 'running', 'dead');
create index outlast_task_withdrawn on outlast_task (ending) where state = 'cancelled';

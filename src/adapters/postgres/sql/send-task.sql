-- Writes one task under a newly drawn id straight into the ledger of the same database, inside the caller's transaction:
-- with the commit it is where workers look, and nothing has to move it. The body is what a worker gets; its bytes travel as
-- text. It checks for no conflict: that would cost more than the row.
-- Where relays take the outbox of this database to a broker nothing is written: the sender does not know of the broker, and no
-- worker would look here. The answer is then a mark of this transaction (see transaction-mark.sql), under which the caller
-- writes a row of the outbox instead. Otherwise there is no answer.
-- params: task_id text, task_name text, queue text, priority text, body text, options text, digest text, payload_version text
with put as (
  insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state)
  select $1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text, $8::text::smallint,
    'waiting'
  where not exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database')
  returning id
)
select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true) as mark
where not exists (select 1 from put)

-- Writes one task under a newly drawn id straight into the ledger of the same database, inside the caller's transaction:
-- with the commit it is where workers look, and nothing has to move it. The body is what a worker gets; its bytes travel as
-- text. It returns nothing and checks for no conflict: both would cost more than the row.
-- params: task_id text, task_name text, queue text, priority text, body text, options text, digest text, payload_version text
insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state)
values ($1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text,
  $8::text::smallint, 'waiting')

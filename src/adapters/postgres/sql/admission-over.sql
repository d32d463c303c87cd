-- Reservations whose run the ledger no longer runs: under one key, or, for null, under all. A reservation is taken after its
-- run has begun and a run token is never used again, so what is over here stays over.
-- params: key text, limit int
select p.key, p.task_id, p.run from outlast_place p
where ($1::text is null or p.key = $1)
  and not exists (select 1 from outlast_task t where t.id = p.task_id and t.state = 'running' and t.run = p.run)
limit $2

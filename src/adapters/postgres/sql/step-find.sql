-- The value of a step of a task that was done before, wherever the ledger was then.
-- params: id text, step text
select encode(coalesce(
  (select s.value from outlast_step s where s.task_id = $1::text and s.step = $2::text),
  (select e.value from outlast_effect e where e.effect_key = $1::text and e.step = $2::text)), 'base64') as value

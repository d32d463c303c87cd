-- Marks a step as being done, or finds the value of one that was done before.
-- params: id text, step text, epoch text
with mine as (
  insert into outlast_step (task_id, step, epoch) values ($1::text, $2::text, $3::text::bigint)
  on conflict (task_id, step) do nothing returning step
)
select (select count(*) from mine)::text as is_new,
  (select encode(s.value, 'base64') from outlast_step s where s.task_id = $1::text and s.step = $2::text) as value

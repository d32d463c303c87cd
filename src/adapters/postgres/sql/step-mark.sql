-- Marks a step of a task whose ledger is elsewhere as being done. In both tables: if this database becomes the ledger, or
-- was it, the step is found in the first; processes of an older version read the second.
-- params: id text, step text, epoch text
with mine as (
  insert into outlast_step (task_id, step, epoch) values ($1::text, $2::text, $3::text::bigint)
  on conflict (task_id, step) do nothing returning step
), also as (
  insert into outlast_effect (effect_key, step, task_id, epoch)
  select $1::text, $2::text, $1::text, $3::text::bigint from mine
  on conflict (effect_key, step) do nothing returning step
)
select count(*)::text as is_new from also

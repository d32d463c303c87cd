-- Marks a step as being done. Not new: it exists already, or was done while the ledger was elsewhere; step-find.sql has its
-- value.
-- params: id text, step text, epoch text
insert into outlast_step (task_id, step, epoch)
select $1::text, $2::text, $3::text::bigint
where not exists (select 1 from outlast_effect where effect_key = $1::text and step = $2::text)
on conflict (task_id, step) do nothing returning step

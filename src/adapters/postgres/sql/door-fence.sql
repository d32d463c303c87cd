-- Opens the effect-once door: locks the task row of a run that still owns its task. No row: another epoch owns it.
-- params: id text, epoch text, run text
select id from outlast_task
where id = $1::text and state = 'running' and epoch = $2::text::bigint and run = $3::text for update

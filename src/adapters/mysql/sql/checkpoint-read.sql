-- params: task_id text, epoch bigint, seq bigint, part int
select data from outlast_checkpoint where task_id = $1 and epoch = $2 and seq = $3 and part = $4

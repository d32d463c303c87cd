-- params: task_id text, epoch bigint, seq bigint
delete from outlast_checkpoint where task_id = $1 and epoch = $2 and seq = $3

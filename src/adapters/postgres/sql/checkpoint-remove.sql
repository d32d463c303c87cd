-- params: task_id text, epoch bigint, seq bigint
delete from outlast_checkpoint where task_id = $1 and epoch = $2::bigint and seq = $3::bigint

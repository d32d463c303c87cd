-- Large checkpoints that were begun longer than $1 milliseconds ago, behind the one named, in the order of their keys. The
-- first of the two comparisons is for the index, which is not used for several columns at once.
-- params: age_ms bigint, task_id text, epoch bigint, seq bigint, limit int
select task_id, cast(epoch as char) as epoch, cast(seq as char) as seq from outlast_checkpoint
where part = 0 and created_at < utc_timestamp(6) - interval $1 * 1000 microsecond
  and task_id >= $2 and (task_id, epoch, seq) > ($2, $3, $4)
order by task_id, epoch, seq limit $5

-- Large checkpoints that were begun longer than $1 milliseconds ago, behind the one named, in the order of their keys.
-- params: age_ms bigint, task_id text, epoch bigint, seq bigint, limit int
select task_id, epoch::text as epoch, seq::text as seq from outlast_checkpoint
where part = 0 and created_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
  and (task_id, epoch, seq) > ($2::text, $3::bigint, $4::bigint)
order by task_id, epoch, seq limit $5::int

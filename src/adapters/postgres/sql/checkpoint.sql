-- Stores progress of a run. Within one epoch the sequence must grow; a newer epoch starts where the last one ended.
-- params: id text, epoch bigint, run text, seq bigint, data bytea
with moved as (
  update outlast_task set checkpoint = $5, checkpoint_epoch = $2, checkpoint_seq = $4
  where id = $1 and state = 'running' and epoch = $2 and run = $3
    and (checkpoint_epoch < $2 or checkpoint_seq < $4)
  returning id
)
select case
    when exists (select 1 from moved) then 'ok'
    when t.id is null then 'absent'
    when t.state = 'running' and t.epoch = $2 and t.run = $3 and t.checkpoint_epoch = $2 and t.checkpoint_seq = $4 and t.checkpoint = $5 then 'ok'
    else 'stale'
  end as status
from (select 1) one left join outlast_task t on t.id = $1

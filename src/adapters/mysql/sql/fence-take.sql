-- Takes the lock of a task's fence until the transaction ends, and moves the fence to this run if it stands lower;
-- fence-read.sql returns which run has it now. By the primary key only the row is locked, and no gap beside it. Assignments
-- run in their order, so the run is compared before the epoch moves.
-- params: id text, epoch text, run text
insert into outlast_fence (task_id, epoch, run, look_at, updated_at)
values ($1, cast($2 as signed), $3, utc_timestamp(6) + interval 1 minute, utc_timestamp(6))
on duplicate key update
  run = if(values(epoch) > epoch, values(run), run),
  epoch = greatest(epoch, values(epoch)),
  look_at = values(look_at), is_over = false, updated_at = values(updated_at)

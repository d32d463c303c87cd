-- Takes the lock of a task's fence until the transaction ends, and moves the fence to this run if it stands lower. Returns
-- which run has it now. A fence that is not moved is locked too.
-- params: id text, epoch text, run text
insert into outlast_fence as f (task_id, epoch, run, look_at)
values ($1::text, $2::text::bigint, $3::text, clock_timestamp() + interval '1 minute')
on conflict (task_id) do update set
  run = case when excluded.epoch > f.epoch then excluded.run else f.run end,
  epoch = greatest(f.epoch, excluded.epoch),
  look_at = excluded.look_at, is_over = false, updated_at = clock_timestamp()
returning epoch::text as epoch, run

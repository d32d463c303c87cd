-- Takes a key that is free or was freed, that an earlier run of the same task holds, or whose holder has ended. Otherwise the
-- row shows the holder, and the caller is remembered, to be woken. In every case the row is locked and written: two callers
-- at the same time are answered one after the other. The origin stays that of the holder before, unless the key was new.
-- A key is free when the run that holds it has freed it: a process of an older version, which does not know that,
-- replaces that run like any that has ended.
-- Of two runs under one epoch the first has it: the other asks the ledger which of them is the rightful one.
-- params: key text, digest text, task_id text, epoch bigint, lease_ms bigint, instead_of_task text, instead_of_epoch bigint, most_waiters int, ttl_ms bigint, run text
insert into outlast_idempotency as k (key, state, task_id, epoch, digest, expires_at, origin, ttl_ms, run)
values ($1::text, 'held', $3::text, $4::bigint, $2::text, clock_timestamp() + $5::bigint * interval '1 millisecond',
  $3::text, $9::bigint, $10::text)
on conflict (key) do update set
  (state, task_id, epoch, digest, result, held_at, reviewed_at, expires_at, waiters, origin, ttl_ms, freed_by, run) = (
    select
      case when d.takes then 'held' else k.state end,
      case when d.takes then $3::text else k.task_id end,
      case when d.takes then $4::bigint else k.epoch end,
      case when d.takes then $2::text else k.digest end,
      case when d.takes then null else k.result end,
      case when d.takes and (d.is_over or d.is_free or k.task_id <> $3::text) then d.at else k.held_at end,
      case when d.takes then d.at else k.reviewed_at end,
      case when d.takes then d.at + $5::bigint * interval '1 millisecond' else k.expires_at end,
      case
        when d.is_over then '{}'::jsonb
        when d.takes then k.waiters - $3::text
        when d.waits then jsonb_set(k.waiters, array[$3::text], to_jsonb(coalesce((k.waiters ->> $3::text)::int, 0) + 1))
        else k.waiters
      end,
      case when d.is_over then $3::text else coalesce(k.origin, k.task_id) end,
      case when d.takes then $9::bigint else k.ttl_ms end,
      case when d.takes then null else k.freed_by end,
      case when d.takes then $10::text else k.run end
    from (
      select c.at, c.is_over, c.is_free,
        c.is_over or c.is_free
          or (k.state = 'held' and k.task_id = $3::text
            and (k.epoch < $4::bigint or (k.epoch = $4::bigint and coalesce(k.run, $10::text) = $10::text)))
          or (k.state = 'held' and k.task_id <> $3::text and k.task_id = $6::text and k.epoch = $7::bigint) is true as takes,
        k.state = 'held' and k.task_id <> $3::text and k.digest = $2::text and $5::bigint is null
          and ((select count(*) from jsonb_object_keys(k.waiters)) < $8::int or k.waiters ? $3::text) as waits
      from (
        select now.at, coalesce(k.expires_at <= now.at, false) as is_over,
          coalesce(k.freed_by = k.task_id || '@' || k.epoch, false) as is_free
        from (select clock_timestamp() as at) now
      ) c
    ) d
  )
returning k.state, k.task_id, k.epoch::text as epoch, k.digest, k.result, k.origin, k.run,
  (extract(epoch from clock_timestamp() - k.held_at) * 1000)::bigint::text as held_ms,
  (k.waiters ->> $3::text)::int as asked

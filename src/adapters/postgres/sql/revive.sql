-- A dead task waits again, once: the version names the death that is undone. One that expired meanwhile would only be
-- cancelled, so it stays.
-- params: id text, version int
with moved as (
  update outlast_task set
    state = 'waiting', due = clock_timestamp(), failures = 0, crashes = 0, ending = null, ended_at = null, reason = null, error = null,
    version = version + 1, history = outlast_history(history, outlast_line('revived', epoch, null, null))
  where id = $1 and state = 'dead' and version = $2 and (expires_at is null or expires_at > clock_timestamp())
  returning id
), note as (select pg_notify('outlast_task', '') from moved)
select case
    when exists (select 1 from note) then 'ok'
    when exists (select 1 from outlast_task where id = $1 and state = 'dead' and version = $2) then 'expired'
    when exists (select 1 from outlast_task where id = $1) then 'conflict'
    else 'absent'
  end as status

-- A dead task waits again, once: the version names the death that is undone. A task that expired meanwhile would only be
-- cancelled, so it stays. An unsent follow-up is written to the follow-up log again, as `encodeAfter` does it, and its
-- record is deleted: the message would find it, and the queue may be one that no worker of ours takes from.
-- params: id text, version int
with unsent as (
  delete from outlast_task
  where id = $1 and state = 'dead' and version = $2 and (expires_at is null or expires_at > clock_timestamp())
    and reason in ('ERR_FOLLOW_UP_UNSENT', 'ERR_DESTINATION_REFUSED')
  returning *
), again as (
  insert into outlast_after (key, entry, due)
  select id || '/revived:' || version, convert_to(json_build_object(
      'id', id, 'name', name, 'queue', queue, 'priority', priority, 'version', payload_version, 'digest', digest,
      'etaMs', floor(extract(epoch from eta) * 1000), 'expiresMs', floor(extract(epoch from expires_at) * 1000),
      'body', translate(encode(body, 'base64'), E'\n', ''),
      'options', translate(encode(options, 'base64'), E'\n', '')
    )::text, 'UTF8'), clock_timestamp() - interval '1 hour'
  from unsent
  on conflict (key) do nothing
), moved as (
  update outlast_task set
    state = 'waiting', due = clock_timestamp(), failures = 0, crashes = 0, ending = null, ended_at = null, reason = null, error = null,
    version = version + 1, history = outlast_history(history, outlast_line('revived', epoch, null, null))
  where id = $1 and state = 'dead' and version = $2 and (expires_at is null or expires_at > clock_timestamp())
    and reason not in ('ERR_FOLLOW_UP_UNSENT', 'ERR_DESTINATION_REFUSED')
  returning id
), note as (select pg_notify('outlast_task', '') from moved)
select case
    when exists (select 1 from note) or exists (select 1 from unsent) then 'ok'
    when exists (select 1 from outlast_task where id = $1 and state = 'dead' and version = $2) then 'expired'
    when exists (select 1 from outlast_task where id = $1) then 'conflict'
    else 'absent'
  end as status

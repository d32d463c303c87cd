-- breaking: no
-- Word to those who follow a task that was cancelled before it came: only its message says who they are.

-- As before; a tombstone that came before its task had no bytes until now.
create or replace function outlast_ended() returns trigger
language plpgsql as $$
declare
  sent outlast_task%rowtype := case when tg_op = 'UPDATE' and old.digest is not null then old else new end;
begin
  if outlast_follows(sent.body, sent.options) and new.reason is distinct from 'ERR_DIGEST' then
    insert into outlast_after (key, entry)
    values (
      new.id || '/ended:' || new.epoch,
      convert_to(json_build_object(
        'ended', new.ending, 'epoch', new.epoch, 'id', sent.id, 'name', sent.name, 'queue', sent.queue,
        'priority', sent.priority, 'version', sent.payload_version, 'digest', sent.digest,
        'etaMs', null, 'expiresMs', null,
        'body', translate(encode(sent.body, 'base64'), E'\n', ''),
        'options', translate(encode(sent.options, 'base64'), E'\n', '')
      )::text, 'UTF8'))
    on conflict (key) do nothing;
  end if;
  return null;
end
$$;
create trigger outlast_task_came_cancelled after update on outlast_task for each row
  when (old.digest is null and new.digest is not null and new.ending = 'cancelled')
  execute function outlast_ended();

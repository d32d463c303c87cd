-- breaking: no
-- Workflows: what follows a task that did not end well, and the parts of chords.

-- False only where nothing can follow: the last bytes of a body are always the same then.
create function outlast_follows(body bytea) returns boolean
language sql immutable as $$
  select octet_length(body) > 0 and substring(body from greatest(1, octet_length(body) - 60))
    <> convert_to('{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]', 'UTF8')
$$;

-- Writes down that a task ended otherwise than done, so that its error links and its chord hear of it. One place for
-- every step that can end a task so: fail, bury, reap, cancel and begin. A body that is not what was sent (ERR_DIGEST)
-- says nothing that anybody should follow.
create function outlast_ended() returns trigger
language plpgsql as $$
declare
  sent outlast_task%rowtype := case when tg_op = 'UPDATE' then old else new end;
begin
  if outlast_follows(sent.body) and new.reason is distinct from 'ERR_DIGEST' then
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
create trigger outlast_task_ended after update on outlast_task for each row
  when (new.ending in ('dead', 'cancelled', 'expired') and old.ending is null)
  execute function outlast_ended();
-- A message that came too late, or that was cancelled in the outbox: its first state is its last.
create trigger outlast_task_ended_at_once after insert on outlast_task for each row
  when (new.ending in ('cancelled', 'expired'))
  execute function outlast_ended();

-- The header of a chord, as far as it has come. A part without a result ended otherwise than done.
create table outlast_chord_part (
  group_id text not null,
  place integer not null,
  size integer,
  task_id text not null,
  result bytea,
  joined_at timestamptz not null default clock_timestamp(),
  primary key (group_id, place)
);
create index outlast_chord_part_joined_at on outlast_chord_part (joined_at);

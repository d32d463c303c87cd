-- breaking: no
-- Which chords are open, apart from the parts of those that are complete; and word to senders who wait for an answer.

-- False only where nothing can follow a task, and nobody waits for an answer of ours (Celery's reply_to).
create function outlast_follows(body bytea, options bytea) returns boolean
language sql immutable as $$
  select octet_length(body) > 0
    and (outlast_follows(body) or position(convert_to('"replyTo":', 'UTF8') in options) > 0)
$$;

-- As before, and also where only an answer follows: it must be given whoever dies before that.
create or replace function outlast_ended() returns trigger
language plpgsql as $$
declare
  sent outlast_task%rowtype := case when tg_op = 'UPDATE' then old else new end;
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

-- Chords that wait for parts. Made with the first part, struck off by whoever finds all of them there; parts of complete
-- chords are kept for a day longer, and nobody who asks what is open must read those.
create table outlast_chord (
  group_id text primary key,
  since timestamptz not null
);
create index outlast_chord_since on outlast_chord (since, group_id);
insert into outlast_chord (group_id, since)
  select group_id, min(joined_at) from outlast_chord_part
  group by group_id having max(size) is null or count(result) < max(size);

create function outlast_chord_opened() returns trigger
language plpgsql as $$
begin
  insert into outlast_chord (group_id, since) values (new.group_id, new.joined_at) on conflict (group_id) do nothing;
  return null;
end
$$;
create trigger outlast_chord_part_joined after insert on outlast_chord_part for each row
  execute function outlast_chord_opened();

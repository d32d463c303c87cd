-- The answer for each message, in their order, where `begin-messages` could not see it.
-- params: worker text, run text, ids text[], digests text[]
select m.place::text as place,
  case
    when t.digest is not null and t.digest <> m.digest then 'conflict'
    when t.state = 'running' and t.owner = $1 and t.run = $2 then 'begun'
    when t.state = 'done' then 'done'
    when t.ending = 'expired' then 'expired'
    else 'held'
  end as answer,
  t.epoch::text as epoch, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq::text as checkpoint_seq
from unnest($3::text[], $4::text[]) with ordinality as m(id, digest, place)
join outlast_task t on t.id = m.id
order by m.place

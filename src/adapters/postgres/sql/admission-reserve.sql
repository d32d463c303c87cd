-- Reservations under a key whose row is locked, in the order of the runs; a run that has one keeps it. The limit is checked
-- against the existing reservations, never against a counter.
-- params: key text, limit int, task_ids text[], runs text[]
with asked as (
  select a.*, p.key is not null as is_there
  from unnest($3::text[], $4::text[]) with ordinality as a(task_id, run, place)
  left join outlast_place p on p.key = $1 and p.task_id = a.task_id and p.run = a.run
), ranked as (
  select a.task_id, a.run, row_number() over (order by a.place) + (select count(*) from outlast_place where key = $1) as rank
  from asked a where not a.is_there
), put as (
  insert into outlast_place (key, task_id, run) select $1, task_id, run from ranked where rank <= $2::int
  on conflict do nothing
  returning task_id, run
), fulfilled as (
  delete from outlast_place_wanted w using put p where w.key = $1 and w.task_id = p.task_id
  returning 1
), noted as (
  update outlast_admission set rejected = rejected + (select count(*) from ranked where rank > $2::int)
  where key = $1 and exists (select 1 from ranked where rank > $2::int)
  returning 1
)
select a.is_there or p.task_id is not null as is_in,
  ((select count(*) from outlast_place_wanted where key = $1) - (select count(*) from fulfilled))::text as waiting,
  (select count(*) from noted)::text as noted
from asked a left join put p on p.task_id = a.task_id and p.run = a.run
order by a.place

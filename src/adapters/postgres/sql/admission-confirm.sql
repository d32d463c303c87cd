-- Whether each permit is still valid. The first task that names one owns it; the same task may ask again.
-- params: tokens text[], task_ids text[]
with item as (
  select * from unnest($1::text[], $2::text[]) with ordinality as i(token, task_id, place)
), bound as (
  update outlast_permit p set task_id = i.task_id from item i
  where p.token = i.token and p.ends_at > clock_timestamp() and coalesce(p.task_id, i.task_id) = i.task_id
  returning p.token, p.task_id
)
select b.token is not null as holds
from item i left join bound b on b.token = i.token and b.task_id = i.task_id order by i.place

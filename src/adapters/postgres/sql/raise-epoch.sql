-- Raises the epoch of a run above one that a fence has seen; if its own is higher, nothing changes, and the answer only shows
-- whether it still owns its task. A repeat finds the epoch it left. The row is locked first: of two doors of one run that
-- ask at the same time the second must see what the first has raised.
-- params: id text, epoch bigint, run text, above bigint
with t as materialized (
  select id, state, epoch, run from outlast_task where id = $1 for update
), raised as (
  update outlast_task o set epoch = $4::bigint + 1 from t
  where o.id = t.id and t.state = 'running' and t.epoch = $2 and t.run = $3 and t.epoch <= $4
  returning o.epoch
)
select case
    when t.id is null then 'absent'
    when t.state = 'running' and t.run = $3 and t.epoch in ($2, $4 + 1) then 'ok'
    else 'stale'
  end as status, coalesce((select epoch from raised), t.epoch)::text as epoch
from (select 1) one left join t on true

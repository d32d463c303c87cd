-- The broker has it again: a task that is still set aside, and was never begun, leaves the ledger. Not if a copy has come
-- since it was listed: the worker that brought the copy has let go of it.
-- params: id text, mark text
with gone as (
  delete from outlast_task where id = $1 and state = 'refused' and epoch = 0 and (extract(epoch from refused_at) * 1000000)::bigint::text = $2 returning id
)
select case
    when exists (select 1 from gone) then 'ok'
    when exists (select 1 from outlast_task where id = $1) then 'stale'
    else 'absent'
  end as status

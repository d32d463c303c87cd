-- Sums of the ledger by queue and state; ended tasks that were forgotten since are counted too.
-- params: none
select queue, state, sum(count)::text as count from (
  select queue, state, count(*) as count from outlast_task group by queue, state
  union all
  select queue, case when ending in ('cancelled', 'expired') then 'cancelled' else 'done' end, count from outlast_counter
) c group by queue, state order by queue, state

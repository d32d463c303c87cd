-- Deletes rows the broker confirmed, if they are still ours; returns how many.
-- It does not wait for the disk: if the server crashes and forgets it, rows are sent again. With an ordering key it waits:
-- otherwise the row would be sent again behind the next one of its key.
-- params: token text, rows bigint[]
with quick as materialized (
  select current_setting('synchronous_commit') as usual, set_config('synchronous_commit', 'off', true) as setting
), gone as (
  delete from outlast_outbox
  where id = any($2::bigint[]) and claim_token = $1 and state = 'claimed' and (select quick.setting from quick) = 'off'
  returning case when ordering_key is null then false
    else set_config('synchronous_commit', (select quick.usual from quick), true) is not null end as is_ordered
)
select count(*)::int as settled, coalesce(bool_or(is_ordered), false) as is_ordered from gone

-- Deletes rows the broker confirmed, as far as they are still ours.
-- It does not wait for the disk: a server that crashes and forgets it has rows that are sent again.
-- params: token text, rows bigint[]
with quick as materialized (select set_config('synchronous_commit', 'off', true) as setting)
delete from outlast_outbox
where id = any($2::bigint[]) and claim_token = $1 and state = 'claimed' and (select quick.setting from quick) = 'off'
returning id::text as row, ordering_key is not null as is_ordered

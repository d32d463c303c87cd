-- Locks those of the rows found by reclaim.sql whose claim is still over; rows that are just being settled are left alone.
-- params: rows bigint list
select o.id as row_id from outlast_outbox o
where o.id in ($1) and o.state = 'claimed' and (
  o.claimed_until < utc_timestamp(6)
  or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= utc_timestamp(6)))
order by o.id for update skip locked

-- How long the oldest due row of the outbox has been due: the first entry of two ranges of an index.
-- params: none
select timestampdiff(microsecond, min(first.available_at), utc_timestamp(6)) div 1000 as oldest_ms from (
  (select available_at from outlast_outbox force index (outlast_outbox_due)
    where state = 'pending' and available_at <= utc_timestamp(6) order by available_at limit 1)
  union all
  (select available_at from outlast_outbox force index (outlast_outbox_due)
    where state = 'claimed' order by available_at limit 1)
) first

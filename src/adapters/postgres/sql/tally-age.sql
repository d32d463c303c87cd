-- Adds minutes to their hours when no window needs them any more, and hours to the totals: also those of tasks without an
-- objective, and those that are so far ahead that the clock was wrong. A row is added to another that stays.
-- params: minutes_ms bigint, buckets_ms bigint, ahead_ms bigint
with aged as materialized (
  select s.name, s.queue, s.figure, s.at,
    case
      when o.name is null or s.at > statement_timestamp() + $3::bigint * interval '1 millisecond' then '-infinity'
      when date_bin('1 hour', s.at, 'epoch') < date_bin('1 hour', statement_timestamp(), 'epoch') - $2::bigint * interval '1 millisecond' then '-infinity'
      when date_bin('1 hour', s.at, 'epoch') < date_bin('1 hour', statement_timestamp(), 'epoch') - $1::bigint * interval '1 millisecond' then date_bin('1 hour', s.at, 'epoch')
      else s.at
    end as belongs
  from outlast_tally_sum s left join outlast_objective o on o.name = s.name
  where s.at > '-infinity'
), gone as (
  delete from outlast_tally_sum s using aged a
  where s.name = a.name and s.queue = a.queue and s.figure = a.figure and s.at = a.at and a.belongs <> a.at
  returning s.name, s.queue, s.figure, a.belongs, s.count
)
insert into outlast_tally_sum as s (name, queue, figure, at, count)
select name, queue, figure, belongs, sum(count) from gone group by 1, 2, 3, 4 order by 1, 2, 3, 4
on conflict (name, queue, figure, at) do update set count = s.count + excluded.count

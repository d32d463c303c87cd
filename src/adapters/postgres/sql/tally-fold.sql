-- Adds up to $1 counts to the sums. Names come from messages: what comes after $2 series is added to one of them.
-- params: limit int, most_series int, other text
with over as materialized (
  select ctid from outlast_tally limit $1 for update skip locked
), gone as (
  delete from outlast_tally where ctid = any(array(select ctid from over)) returning name, queue, figure, at, count
), known as materialized (
  select count(*) >= $2::int as full from (select 1 from outlast_tally_sum where at = '-infinity' limit $2::int) s
), named as (
  select case when fits then name else $3::text end as name, case when fits then queue else $3::text end as queue, figure,
    case when fits then at else '-infinity' end as at, count
  from (
    select g.*, not k.full or exists (
        select 1 from outlast_tally_sum s where s.name = g.name and s.queue = g.queue and s.figure = g.figure and s.at = '-infinity'
      ) or g.at > '-infinity' as fits
    from gone g, known k
  ) g
), summed as (
  insert into outlast_tally_sum as s (name, queue, figure, at, count)
  select name, queue, figure, at, sum(count) from named group by 1, 2, 3, 4 order by 1, 2, 3, 4
  on conflict (name, queue, figure, at) do update set count = s.count + excluded.count
)
select count(*)::text as folded from gone

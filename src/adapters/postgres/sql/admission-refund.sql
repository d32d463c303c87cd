-- Gives back what was taken and not used, if no other call has taken since: the state is still the one this call left.
-- params: keys text[], amounts_us bigint[], marks bigint[]
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality as i(key, amount_us, mark, place)
), locked as materialized (
  select s.key from outlast_admission s where s.key in (select key from item) order by s.key for update
), given as (
  update outlast_admission s set tat_us = s.tat_us - i.amount_us
  from item i where s.key = i.key and s.tat_us = i.mark and s.key in (select key from locked)
  returning s.key
)
select g.key is not null as is_refunded from item i left join given g on g.key = i.key order by i.place

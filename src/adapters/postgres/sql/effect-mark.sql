-- Marks a step of a key as being done, under the origin that this database remembers for the key, or else the given one.
-- Two tasks of one key wait for each other at its row. Not new: it exists already; effect-find.sql has its value.
-- params: key text, key_hash text, origin text, step text, task_id text, epoch text, ttl_ms text
with o as (
  insert into outlast_effect_key as k (key_hash, origin, ends_at)
  values ($2::text, $3::text, clock_timestamp() + $7::text::bigint * interval '1 millisecond')
  on conflict (key_hash) do update set
    origin = case when k.ends_at <= clock_timestamp() then excluded.origin else k.origin end, ends_at = excluded.ends_at
  returning origin
), mine as (
  insert into outlast_effect (effect_key, step, task_id, epoch, ttl_ms)
  select 'key ' || encode(sha256(convert_to(o.origin || ' ' || $1::text, 'UTF8')), 'hex'), $4::text, $5::text, $6::text::bigint,
    $7::text::bigint
  from o
  on conflict (effect_key, step) do nothing returning step
)
select o.origin, (select count(*) from mine)::text as is_new from o

-- Remembers the origin under which the effects of a key are kept, unless another is remembered; effect-key-read.sql returns
-- it. Assignments run in their order: the old end is compared before it moves.
-- params: key_hash text, origin text, ttl_ms text
insert into outlast_effect_key (key_hash, origin, ends_at)
values ($1, $2, utc_timestamp(6) + interval cast($3 as signed) * 1000 microsecond)
on duplicate key update
  origin = if(ends_at <= utc_timestamp(6), values(origin), origin), ends_at = values(ends_at)

-- Due tasks that were set aside, first set aside first, after a mark and an id (empty: from the beginning). The mark changes
-- with each copy that arrives. No more than $2 bytes at once, but at least one; `listed` counts without that limit.
-- params: limit int, most_bytes float8, after_mark text, after_id text
select id, name, queue, priority, payload_version, body, options, digest,
  case when isfinite(eta) then (extract(epoch from eta) * 1000)::bigint::text end as eta_ms, case when isfinite(expires_at) then (extract(epoch from expires_at) * 1000)::bigint::text end as expires_ms,
  (extract(epoch from clock_timestamp() - refused_at) * 1000)::bigint::text as waited_ms, refused_by, epoch > 0 as is_begun,
  (extract(epoch from refused_at) * 1000000)::bigint::text as mark, listed::text as listed
from (
  select t.*, row_number() over () as number, sum(octet_length(t.body)::float8) over (rows unbounded preceding) as bytes, count(*) over () as listed
  from (
    select * from outlast_task where state = 'refused' and due <= statement_timestamp()
      and ($3::text = '' or (refused_at >= timestamptz 'epoch' + nullif($3::text, '')::bigint * interval '1 microsecond'
        and (refused_at, id) > (timestamptz 'epoch' + nullif($3::text, '')::bigint * interval '1 microsecond', $4::text)))
    order by refused_at, id limit $1
  ) t
) t
where number = 1 or bytes <= $2::float8 order by refused_at, id

-- Claims up to $3 due rows for one relay, under a random token. RETURNING promises no order; the caller sorts.
-- A claimed row is invisible to other relays until its claim is over.
-- Of rows with an ordering key only the first, in any state, may go, and none while a dead one parks the key. They are found
-- from key to key, each by one look-up, from the key after $8 on: a backlog behind a first row is never walked over. The
-- search ends when there are enough; `key_text` then says where, and the next one goes on there, so that every key has its turn.
-- Where there are both, rows with a key and rows without have half of a claim each.
-- Rows in an unknown format are left to a newer version.
-- Rows without a key that were due before the floor are left out; null is no floor.
-- The rows are looked up by an array, which uses the primary key whatever the planner expects: with a join, each look-up
-- would read the whole table when the statement was planned for an empty outbox.
-- It does not wait for the disk: if the server crashes and forgets a claim, rows are sent again, and none is lost.
-- For rows longer than $7 only the length is returned: so the answer is bounded, and `claim-bodies` reads as many as fit.
-- params: relay text, token text, limit int, stale_ms bigint, known_format int, floor_ms float8, most_bytes float8, after_key text
with recursive quick as materialized (select set_config('synchronous_commit', 'off', true) as setting),
first as (
  (select o.id, o.ordering_key, o.state, o.available_at, o.schema_version from outlast_outbox o
    where o.ordering_key > coalesce($8::text, '') order by o.ordering_key, o.id limit 1)
  union all
  select n.* from first f cross join lateral (
    select o.id, o.ordering_key, o.state, o.available_at, o.schema_version from outlast_outbox o
    where o.ordering_key > f.ordering_key order by o.ordering_key, o.id limit 1) n
), ready as materialized (
  select f.id, f.ordering_key from first f
  where f.state = 'pending' and f.available_at <= statement_timestamp() and f.schema_version <= $5
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = f.ordering_key and d.parks_key)
  limit $3
), plain as materialized (
  select o.id from outlast_outbox o
  where o.state = 'pending' and o.ordering_key is null and o.available_at <= statement_timestamp() and o.schema_version <= $5
    and o.available_at >= coalesce(to_timestamp($6::float8 / 1000), '-infinity')
  order by o.available_at, o.id limit $3 - least((select count(*) from ready), $3 / 2) for update skip locked
), keyed as materialized (
  select o.id, o.ordering_key from outlast_outbox o
  where o.id = any(array(select r.id from ready r)) and o.state = 'pending' and o.available_at <= statement_timestamp()
  order by o.ordering_key limit $3 - (select count(*) from plain) for update skip locked
)
update outlast_outbox o
set state = 'claimed', claim_token = $2, claimed_by = $1, claims = least(o.claims, 2147483646) + 1,
  claimed_until = clock_timestamp() + $4::bigint * interval '1 millisecond', updated_at = clock_timestamp()
where o.id = any(array(select p.id from plain p union all select k.id from keyed k)) and (select quick.setting from quick) = 'off'
returning o.id::text as row, o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  (octet_length(o.args)::bigint + octet_length(o.kwargs) + octet_length(o.embed))::text as bytes,
  case when octet_length(o.args)::bigint + octet_length(o.kwargs) + octet_length(o.embed) <= $7::float8
    then '\x5b'::bytea || o.args || '\x2c'::bytea || o.kwargs || '\x2c'::bytea || o.embed || '\x5d'::bytea end as body,
  o.options, o.digest, case when isfinite(o.eta) then (extract(epoch from o.eta) * 1000)::bigint::text end as eta_ms,
  case when isfinite(o.expires_at) then (extract(epoch from o.expires_at) * 1000)::bigint::text end as expires_ms, o.retries, o.claims,
  (extract(epoch from clock_timestamp() - greatest(o.created_at, case when isfinite(o.eta) then o.eta end)) * 1000)::bigint::text as due_ms,
  (date_part('epoch', greatest(o.available_at, timestamptz 'epoch')) * 1000000)::bigint::text as available_us,
  o.ordering_key is not null as is_keyed,
  case when (select count(*) from ready) >= least($3, (select count(*) from keyed) + 1)
    then coalesce((select max(k.ordering_key) from keyed k), $8) end as key_text

// Written by scripts/embed-assets.mjs from the .sql files; edit those and run npm run build.
type Entry = string;

export const SQL: {
  readonly admissionConfirm: Entry;
  readonly admissionFigures: Entry;
  readonly admissionFree: Entry;
  readonly admissionHold: Entry;
  readonly admissionLockKeys: Entry;
  readonly admissionLock: Entry;
  readonly admissionOver: Entry;
  readonly admissionPrune: Entry;
  readonly admissionRefund: Entry;
  readonly admissionReserve: Entry;
  readonly admissionTake: Entry;
  readonly admissionWant: Entry;
  readonly afterDefer: Entry;
  readonly afterList: Entry;
  readonly afterStrike: Entry;
  readonly beginAnswers: Entry;
  readonly beginAside: Entry;
  readonly beginDue: Entry;
  readonly beginHeads: Entry;
  readonly beginMessages: Entry;
  readonly beginNew: Entry;
  readonly beginProbe: Entry;
  readonly beginSuspects: Entry;
  readonly buryMessages: Entry;
  readonly buryRuns: Entry;
  readonly cancel: Entry;
  readonly checkpointList: Entry;
  readonly checkpointRead: Entry;
  readonly checkpointRemove: Entry;
  readonly checkpointWrite: Entry;
  readonly checkpoint: Entry;
  readonly chordAbandon: Entry;
  readonly chordClose: Entry;
  readonly chordJoin: Entry;
  readonly chordNote: Entry;
  readonly chordOpen: Entry;
  readonly chordParts: Entry;
  readonly claimBodies: Entry;
  readonly claim: Entry;
  readonly commitPlain: Entry;
  readonly commit: Entry;
  readonly condemnExpired: Entry;
  readonly condemnProcess: Entry;
  readonly condemnWorker: Entry;
  readonly controlConsumers: Entry;
  readonly controlDrain: Entry;
  readonly controlLook: Entry;
  readonly controlPause: Entry;
  readonly controlPaused: Entry;
  readonly controlResume: Entry;
  readonly countDeadLetters: Entry;
  readonly countDead: Entry;
  readonly databaseMark: Entry;
  readonly databaseSeen: Entry;
  readonly deferClaim: Entry;
  readonly doctorLedger: Entry;
  readonly doctorOutbox: Entry;
  readonly doctorQueues: Entry;
  readonly doctorServer: Entry;
  readonly doctorSlots: Entry;
  readonly doctorSnapshots: Entry;
  readonly doctorTables: Entry;
  readonly doorFence: Entry;
  readonly doorKnown: Entry;
  readonly doorLimitIdle: Entry;
  readonly doorLimitWait: Entry;
  readonly doorRestoreWait: Entry;
  readonly doorStep: Entry;
  readonly doorValue: Entry;
  readonly effectFind: Entry;
  readonly effectKeep: Entry;
  readonly effectKeyForget: Entry;
  readonly effectMark: Entry;
  readonly enqueueKeyed: Entry;
  readonly enqueueMany: Entry;
  readonly enqueueNotify: Entry;
  readonly enqueuePlainNotify: Entry;
  readonly enqueuePlain: Entry;
  readonly enqueue: Entry;
  readonly evacuateEnd: Entry;
  readonly evacuateList: Entry;
  readonly fail: Entry;
  readonly fenceTake: Entry;
  readonly fencesDue: Entry;
  readonly fencesForget: Entry;
  readonly fencesLater: Entry;
  readonly fencesOver: Entry;
  readonly forgetTests: Entry;
  readonly idempotencyAcquire: Entry;
  readonly idempotencyComplete: Entry;
  readonly idempotencyFree: Entry;
  readonly idempotencyPrune: Entry;
  readonly idempotencyRead: Entry;
  readonly idempotencyRenew: Entry;
  readonly idempotencyReview: Entry;
  readonly isolateTask: Entry;
  readonly ledgerDead: Entry;
  readonly ledgerEnded: Entry;
  readonly ledgerFailing: Entry;
  readonly ledgerInspect: Entry;
  readonly ledgerLetter: Entry;
  readonly ledgerLettersNewest: Entry;
  readonly ledgerLettersOldest: Entry;
  readonly ledgerMoments: Entry;
  readonly ledgerNextDue: Entry;
  readonly ledgerQueues: Entry;
  readonly ledgerRecent: Entry;
  readonly ledgerScheduled: Entry;
  readonly ledgerStates: Entry;
  readonly ledgerView: Entry;
  readonly ledgerWalkOver: Entry;
  readonly ledgerWalkRefused: Entry;
  readonly ledgerWalkRunning: Entry;
  readonly ledgerWalkSuspects: Entry;
  readonly ledgerWalkWaiting: Entry;
  readonly lockOrderingKeys: Entry;
  readonly markSent: Entry;
  readonly moveIn: Entry;
  readonly move: Entry;
  readonly movedForget: Entry;
  readonly openWorker: Entry;
  readonly outboxFailing: Entry;
  readonly outboxFind: Entry;
  readonly outboxLetter: Entry;
  readonly outboxLettersNewest: Entry;
  readonly outboxLettersOldest: Entry;
  readonly outboxList: Entry;
  readonly outboxNextDue: Entry;
  readonly outboxQueuesSampled: Entry;
  readonly outboxQueues: Entry;
  readonly outboxRecent: Entry;
  readonly outboxSample: Entry;
  readonly outboxView: Entry;
  readonly park: Entry;
  readonly pruneChords: Entry;
  readonly pruneEffects: Entry;
  readonly pruneNeverSent: Entry;
  readonly pruneSendKeys: Entry;
  readonly prune: Entry;
  readonly purgeDeadLetters: Entry;
  readonly purgeDead: Entry;
  readonly putOffTask: Entry;
  readonly raiseEpoch: Entry;
  readonly readDigest: Entry;
  readonly readResult: Entry;
  readonly readState: Entry;
  readonly reap: Entry;
  readonly receiptLater: Entry;
  readonly receiptPark: Entry;
  readonly receiptReceived: Entry;
  readonly receiptSendAgain: Entry;
  readonly receiptTake: Entry;
  readonly reclaim: Entry;
  readonly recordNeverSent: Entry;
  readonly refusedBury: Entry;
  readonly refusedHandBack: Entry;
  readonly refusedList: Entry;
  readonly relayBeat: Entry;
  readonly relayLeave: Entry;
  readonly releaseClaim: Entry;
  readonly release: Entry;
  readonly renewClaim: Entry;
  readonly renew: Entry;
  readonly reviveDeadLetter: Entry;
  readonly revive: Entry;
  readonly scheduleDeclare: Entry;
  readonly scheduleDeclared: Entry;
  readonly scheduleDelete: Entry;
  readonly scheduleDue: Entry;
  readonly scheduleInsert: Entry;
  readonly scheduleList: Entry;
  readonly scheduleLock: Entry;
  readonly scheduleNext: Entry;
  readonly schedulePrune: Entry;
  readonly scheduleRead: Entry;
  readonly scheduleUpdate: Entry;
  readonly sendMany: Entry;
  readonly sendTaskNotify: Entry;
  readonly sendTask: Entry;
  readonly sendTimedTask: Entry;
  readonly setAside: Entry;
  readonly settleDead: Entry;
  readonly settleFailed: Entry;
  readonly settleGeneration: Entry;
  readonly settleOwnGeneration: Entry;
  readonly settlePublished: Entry;
  readonly stepFind: Entry;
  readonly stepKeep: Entry;
  readonly stepMark: Entry;
  readonly tallyAge: Entry;
  readonly tallyFold: Entry;
  readonly tallyObjectives: Entry;
  readonly tallyTotals: Entry;
  readonly tierForget: Entry;
  readonly tierLeft: Entry;
  readonly tierList: Entry;
  readonly tierNote: Entry;
  readonly transactionCheck: Entry;
  readonly transactionMark: Entry;
  readonly unclaim: Entry;
  readonly wake: Entry;
  readonly withdrawLook: Entry;
  readonly withdrawRow: Entry;
} = {
  admissionConfirm: `with item as (
  select * from unnest($1::text[], $2::text[]) with ordinality as i(token, task_id, place)
), bound as (
  update outlast_permit p set task_id = i.task_id from item i
  where p.token = i.token and p.ends_at > clock_timestamp() and coalesce(p.task_id, i.task_id) = i.task_id
  returning p.token, p.task_id
)
select b.token is not null as holds
from item i left join bound b on b.token = i.token and b.task_id = i.task_id order by i.place`,
  admissionFigures: `select s.key, s.rate_limit::text as rate_limit, s.per_ms::numeric::text as per_ms, s.burst::text as burst, s.concurrency, s.rejected::text as rejected,
  least(s.burst, greatest(0, (m.us + s.burst * s.interval_us - greatest(s.tat_us, m.us)) / s.interval_us))::text as available,
  (select count(*) from outlast_place p where p.key = s.key)::text as held,
  (select count(*) from outlast_place_wanted w where w.key = s.key)::text as waiting
from outlast_admission s, (select floor(extract(epoch from clock_timestamp()) * 1000000)::bigint as us) m
order by s.key collate "C"`,
  admissionFree: `with gone as (
  delete from outlast_place p using unnest($1::text[], $2::text[], $3::text[]) as f(key, task_id, run)
  where p.key = f.key and p.task_id = f.task_id and p.run = f.run
  returning p.key
), freed as (
  select key, count(*) as n from gone group by key
), next as (
  select w.key, w.task_id from freed f cross join lateral (
    select key, task_id from outlast_place_wanted where key = f.key
    order by since, task_id limit f.n for update skip locked) w
), woken as (
  delete from outlast_place_wanted w using next n where w.key = n.key and w.task_id = n.task_id
  returning w.task_id
)
select distinct task_id from woken`,
  admissionHold: `insert into outlast_permit (token, ends_at)
values ($1, clock_timestamp() + $2::float8 * interval '1 millisecond')
on conflict (token) do nothing`,
  admissionLockKeys: `select key from outlast_admission where key = any($1::text[]) order by key for update`,
  admissionLock: `insert into outlast_admission (key, concurrency) values ($1, $2)
on conflict (key) do update set concurrency = excluded.concurrency, used_at = clock_timestamp()`,
  admissionOver: `select p.key, p.task_id, p.run from outlast_place p
where ($1::text is null or p.key = $1)
  and not exists (select 1 from outlast_task t where t.id = p.task_id and t.state = 'running' and t.run = p.run)
limit $2`,
  admissionPrune: `with permits as (
  delete from outlast_permit where token in (
    select token from outlast_permit where ends_at <= clock_timestamp() limit $1 for update skip locked) returning 1
), wishes as (
  delete from outlast_place_wanted where (key, task_id) in (
    select key, task_id from outlast_place_wanted where since < clock_timestamp() - interval '1 hour'
    limit $1 for update skip locked) returning 1
), keys as (
  delete from outlast_admission where key in (
    select s.key from outlast_admission s
    where s.used_at < clock_timestamp() - interval '1 day' and s.tat_us < extract(epoch from clock_timestamp()) * 1000000
      and not exists (select 1 from outlast_place p where p.key = s.key)
    limit $1 for update skip locked)
  returning 1
)
select ((select count(*) from permits) + (select count(*) from wishes) + (select count(*) from keys))::text as pruned`,
  admissionRefund: `with item as (
  select * from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality as i(key, amount_us, mark, place)
), locked as materialized (
  select s.key from outlast_admission s where s.key in (select key from item) order by s.key for update
), given as (
  update outlast_admission s set tat_us = s.tat_us - i.amount_us
  from item i where s.key = i.key and s.tat_us = i.mark and s.key in (select key from locked)
  returning s.key
)
select g.key is not null as is_refunded from item i left join given g on g.key = i.key order by i.place`,
  admissionReserve: `with asked as (
  select a.*, p.key is not null as is_there
  from unnest($3::text[], $4::text[]) with ordinality as a(task_id, run, place)
  left join outlast_place p on p.key = $1 and p.task_id = a.task_id and p.run = a.run
), ranked as (
  select a.task_id, a.run, row_number() over (order by a.place) + (select count(*) from outlast_place where key = $1) as rank
  from asked a where not a.is_there
), put as (
  insert into outlast_place (key, task_id, run) select $1, task_id, run from ranked where rank <= $2::int
  on conflict do nothing
  returning task_id, run
), fulfilled as (
  delete from outlast_place_wanted w using put p where w.key = $1 and w.task_id = p.task_id
  returning 1
), noted as (
  update outlast_admission set rejected = rejected + (select count(*) from ranked where rank > $2::int)
  where key = $1 and exists (select 1 from ranked where rank > $2::int)
  returning 1
)
select a.is_there or p.task_id is not null as is_in,
  ((select count(*) from outlast_place_wanted where key = $1) - (select count(*) from fulfilled))::text as waiting,
  (select count(*) from noted)::text as noted
from asked a left join put p on p.task_id = a.task_id and p.run = a.run
order by a.place`,
  admissionTake: `with moment as materialized (
  select floor(extract(epoch from clock_timestamp()) * 1000000)::bigint as us
), ask as materialized (
  select a.*, m.us from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::float8[])
    with ordinality as a(key, n, interval_us, burst, rate_limit, per_ms, place), moment m
), taken as (
  insert into outlast_admission as s
    (key, tat_us, asked_us, granted, interval_us, burst, rate_limit, per_ms, rejected)
  select key, us + least(n, burst) * interval_us, us, least(n, burst), interval_us, burst, rate_limit, per_ms, n - least(n, burst)
  from ask order by key
  on conflict (key) do update set
    tat_us = case
      when s.tat_us > extract(epoch from clock_timestamp()) * 1000000 + excluded.burst * excluded.interval_us + 1000000
        then floor(extract(epoch from clock_timestamp()) * 1000000)::bigint + excluded.burst * excluded.interval_us
      when greatest(s.tat_us, excluded.asked_us) + excluded.interval_us
          > excluded.asked_us + excluded.burst * excluded.interval_us
        then s.tat_us
      else greatest(s.tat_us, excluded.asked_us) + excluded.interval_us * least(
        excluded.granted + excluded.rejected,
        (excluded.asked_us + excluded.burst * excluded.interval_us - greatest(s.tat_us, excluded.asked_us)) / excluded.interval_us)
    end,
    granted = least(excluded.granted + excluded.rejected, greatest(0,
      (excluded.asked_us + excluded.burst * excluded.interval_us - greatest(s.tat_us, excluded.asked_us)) / excluded.interval_us)),
    rejected = s.rejected + excluded.granted + excluded.rejected - least(excluded.granted + excluded.rejected, greatest(0,
      (excluded.asked_us + excluded.burst * excluded.interval_us - greatest(s.tat_us, excluded.asked_us)) / excluded.interval_us)),
    asked_us = excluded.asked_us, interval_us = excluded.interval_us, burst = excluded.burst,
    rate_limit = excluded.rate_limit, per_ms = excluded.per_ms, used_at = clock_timestamp()
  returning s.key, s.tat_us, s.asked_us, s.granted
)
select t.granted::text as granted, t.tat_us::text as tat_us,
  (case when t.granted = a.n then 0
    else greatest(t.tat_us, t.asked_us) + a.interval_us - t.asked_us - a.burst * a.interval_us end)::text as wait_us
from ask a join taken t on t.key = a.key
order by a.place`,
  admissionWant: `with room as (
  select count(*) < $2::int as is_there from outlast_place where key = $1
), wish as (
  insert into outlast_place_wanted (key, task_id) select $1, $3 from room where not is_there
  on conflict do nothing
  returning 1
)
select r.is_there as has_room, (select count(*) from wish)::text as noted from room r`,
  afterDefer: `update outlast_after a set
  due = clock_timestamp() + i.delay_ms * interval '1 millisecond', attempts = a.attempts + i.attempts
from unnest($1::text[], $2::bigint[], $3::int[]) as i(key, delay_ms, attempts)
where a.key = i.key`,
  afterList: `with page as (
  select key, due, attempts, octet_length(entry) as bytes from outlast_after
  where due <= statement_timestamp() - $1::bigint * interval '1 millisecond'
  order by due, key limit $2
), summed as (
  select key, due, attempts, sum(bytes) over (order by due, key) as total, row_number() over (order by due, key) as place
  from page
)
select a.key, a.entry, s.attempts
from summed s join outlast_after a on a.key = s.key
where s.total <= $3::bigint or s.place = 1
order by s.place`,
  afterStrike: `delete from outlast_after where key = any($1::text[])`,
  beginAnswers: `select m.place::text as place,
  case
    when t.digest is not null and t.digest <> m.digest then 'conflict'
    when t.state = 'running' and t.owner = $1 and t.run = $2 then 'begun'
    when t.state = 'done' then 'done'
    when t.ending = 'expired' then 'expired'
    else 'held'
  end as answer,
  t.epoch::text as epoch, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq::text as checkpoint_seq
from unnest($3::text[], $4::text[]) with ordinality as m(id, digest, place)
join outlast_task t on t.id = m.id
order by m.place`,
  beginAside: `with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
), suspected as materialized (
  select t.id, t.late
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join unnest($6::text[], $7::int[]) as n(name, version)
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where t.state = 'refused' and t.suspect and t.queue = q.name and t.name = n.name and t.payload_version <= n.version
      and t.due <= statement_timestamp()
    order by t.due, t.seq limit least($4::int, $9::int) for update skip locked
  ) t
  where exists (select 1 from me)
  limit least($4::int, $9::int)
), picked as materialized (
  select t.id, t.late, row_number() over () as place, sum(t.bytes) over (rows unbounded preceding) as bytes
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join unnest($6::text[], $7::int[]) as n(name, version)
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late,
      octet_length(t.body)::float8 + coalesce(octet_length(t.checkpoint), 0) as bytes
    from outlast_task t
    where t.state = 'refused' and not t.suspect and t.queue = q.name and t.name = n.name and t.payload_version <= n.version
      and t.due <= statement_timestamp()
    order by t.due, t.seq limit $4 for update skip locked
  ) t
  where exists (select 1 from me)
  limit $4::int - (select count(*) from suspected)
), taken as (
  select id, late from suspected union all select id, late from picked where place = 1 or bytes <= $8::float8
), moved as (
  update outlast_task t set
    state = case when p.late then 'cancelled' else 'running' end,
    epoch = case when p.late then t.epoch else greatest(t.epoch + 9214364837600034816 - 9214364837600034815, me.first_epoch) end,
    run = case when p.late then t.run else $2 end,
    owner = case when p.late then null else $1 end,
    crash_budget = coalesce(($5::jsonb ->> t.name)::int, ($5::jsonb ->> '*')::int),
    ending = case when p.late then 'expired' end,
    ended_at = case when p.late then clock_timestamp() end,
    keep_until = case when p.late then clock_timestamp() + interval '1 day' end,
    refused_at = null, refused_by = null,
    history = outlast_history(t.history, case when p.late then outlast_line('expired', t.epoch, null, null)
      else outlast_line('begun', greatest(t.epoch + 1, me.first_epoch), $1, null) end)
  from taken p, me
  where t.id = p.id
  returning t.*
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'expired',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  where m.state = 'cancelled'
  group by 1, 2, 3, 4
)
select t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
  case when isfinite(t.eta) then (extract(epoch from t.eta) * 1000)::bigint::text end as eta_ms, case when isfinite(t.expires_at) then (extract(epoch from t.expires_at) * 1000)::bigint::text end as expires_ms,
  t.epoch::text as epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq::text as checkpoint_seq
from moved t`,
  beginDue: `/* kept plan */
with me as materialized (
  select w.id, (
      select g.generation * 1048576 + 1 from outlast_generation g
      where g.node = 'this database' and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
    ) as first_epoch
  from outlast_worker w where w.id = $1 and w.state = 'open' for key share
), again as materialized (
  select t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due, t.seq
  from outlast_task t where not $10::boolean and t.owner = $1 and t.run = $2 and t.state = 'running' and t.id <> all($6::text[])
), look as materialized (
  select q.name, p.priority, coalesce(to_timestamp(($9::float8[])[(q.place - 1) * 10 + p.priority + 1] / 1000), '-infinity') as floor
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join generate_series(9, 0, -1) as p(priority)
  where exists (select 1 from me where first_epoch is not null) and not exists (select 1 from again)
  order by q.place, p.priority desc
), due as materialized (
  select t.id, t.late, $7::jsonb is null or coalesce(($7::jsonb ->> t.name)::int >= t.payload_version, false) as ours,
    row_number() over () as place, sum(t.bytes) over (rows unbounded preceding) as bytes
  from look l
  cross join lateral (
    select t.id, t.name, t.payload_version, coalesce(t.expires_at <= clock_timestamp(), false) as late,
      octet_length(t.body)::float8 + coalesce(octet_length(t.checkpoint), 0) as bytes
    from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = l.name and t.priority = l.priority and t.due <= statement_timestamp() and t.due >= l.floor
    order by t.due, t.seq limit $4 for update skip locked
  ) t
  limit $4
), picked as materialized (
  select array_agg(id) filter (where ours and not late) as ready, array_agg(id) filter (where late) as late,
    array_agg(id) filter (where late or not ours) as turned
  from due where place = 1 or bytes <= $8::float8
), moved as (
  update outlast_task t set
    state = 'running', run = $2, owner = $1,
    epoch = greatest(t.epoch + 9214364837600034816 - 9214364837600034815, (select first_epoch from me)),
    crash_budget = coalesce(($5::jsonb ->> t.name)::int, ($5::jsonb ->> '*')::int),
    ending = null, ended_at = null, keep_until = null, refused_at = null, refused_by = null,
    history = outlast_history(t.history, outlast_line('begun', greatest(t.epoch + 1, (select first_epoch from me)), $1, null))
  where t.id = any((select ready from picked)::text[])
  returning t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due, t.seq
), turned as (
  update outlast_task t set
    owner = null,
    (state, ending, ended_at, keep_until, refused_at, refused_by, history) = (
      select case when x.is_late then 'cancelled' else 'refused' end, case when x.is_late then 'expired' end,
        case when x.is_late then clock_timestamp() end, case when x.is_late then clock_timestamp() + interval '1 day' end,
        case when not x.is_late then clock_timestamp() end, case when not x.is_late then $1 end,
        outlast_history(t.history, case when x.is_late then outlast_line('expired', t.epoch, null, null) else outlast_line('refused', t.epoch, $1, null) end)
      from (select t.id = any(p.late) is true as is_late from picked p) x)
  where t.id = any((select turned from picked)::text[])
  returning t.state, t.id, t.name, t.queue, t.priority, t.payload_version, t.body, t.options, t.digest,
    t.eta, t.expires_at, t.epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq, t.due, t.seq
), given as (
  select m.* from moved m
  union all
  select u.* from turned u
  union all
  select a.* from again a
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'expired',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from turned m
  left join outlast_objective o on o.name = m.name
  where m.state = 'cancelled'
  group by 1, 2, 3, 4
)
select (select count(*) from me)::text as open, (select count(first_epoch) from me)::text as settled,
  exists (select 1 from outlast_task r where r.state = 'refused' and r.queue = any($3::text[])) as aside,
  exists (select 1 from outlast_task r where r.state = 'waiting' and r.suspect and r.queue = any($3::text[])) as suspects,
  g.state, g.id, g.name, g.queue, g.priority, g.payload_version, case when g.state = 'running' then g.body end as body, g.options, g.digest,
  case when isfinite(g.eta) then (extract(epoch from g.eta) * 1000)::bigint::text end as eta_ms, case when isfinite(g.expires_at) then (extract(epoch from g.expires_at) * 1000)::bigint::text end as expires_ms,
  g.epoch::text as epoch, g.run, g.failures, g.crashes, g.suspect, g.checkpoint, g.checkpoint_seq::text as checkpoint_seq,
  case when isfinite(g.due) then (extract(epoch from g.due) * 1000)::bigint::text end as due_ms
from (select 1) one left join given g on true
order by array_position($3::text[], g.queue), g.priority desc, g.due, g.seq`,
  beginHeads: `select t.id
from unnest($1::text[]) as q(name)
cross join generate_series(9, 0, -1) as p(priority)
cross join lateral (
  (select t.id from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit $2)
  union all
  (select t.id from outlast_task t
    where t.state = 'waiting' and t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit $2)
) t
union all
(select t.id from outlast_task t where t.state = 'refused' and t.queue = any($1::text[]) and t.due <= statement_timestamp() limit $2)`,
  beginMessages: `with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  left join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
), given as (
  select * from unnest($5::text[], $6::text[], $7::text[], $8::int[], $9::int[], $10::bytea[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[])
    with ordinality as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, place)
), msg as materialized (
  select distinct on (m.id) m.*, to_timestamp(m.eta_ms / 1000.0) as eta, to_timestamp(m.expires_ms / 1000.0) as expires_at,
    coalesce(to_timestamp(m.expires_ms / 1000.0) <= clock_timestamp(), false) as late,
    coalesce(to_timestamp(m.eta_ms / 1000.0) > clock_timestamp(), false) as early,
    coalesce(($3::jsonb ->> m.name)::int, ($3::jsonb ->> '*')::int) as budget
  from given m
  where exists (select 1 from me where first_epoch is not null)
  order by m.id, m.place
), suspected as (
  select m.id, row_number() over (order by m.place) as nth
  from msg m join outlast_task t on t.id = m.id where t.state = 'waiting' and t.suspect
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at,
    state, epoch, run, owner, crash_budget, due, ending, ended_at, keep_until, history)
  select id, name, queue, priority, version, body, options, digest, eta, expires_at,
    case when late then 'cancelled' when early then 'waiting' else 'running' end,
    case when late or early then 0 else first_epoch end, case when late or early then null else $2 end,
    case when late or early then null else $1 end, budget, case when early then eta else clock_timestamp() end,
    case when late then 'expired' end, case when late then clock_timestamp() end,
    case when late then clock_timestamp() + interval '1 day' end,
    case when late then outlast_line('expired', 0, null, null) when early then outlast_line('arrived', 0, null, null)
      else outlast_line('begun', first_epoch, $1, null) end
  from msg, (select first_epoch from me) me
  on conflict (id) do nothing
  returning id, name, queue, digest, state, epoch
), woken as (
  update outlast_task t set
    state = case when m.late then 'cancelled' else 'running' end,
    epoch = case when m.late then t.epoch else greatest(t.epoch + 1, me.first_epoch) end,
    run = case when m.late then t.run else $2 end,
    owner = case when m.late then null else $1 end,
    crash_budget = m.budget, refused_at = null, refused_by = null,
    ending = case when m.late then 'expired' end,
    ended_at = case when m.late then clock_timestamp() end,
    keep_until = case when m.late then clock_timestamp() + interval '1 day' end,
    history = outlast_history(t.history, case when m.late then outlast_line('expired', t.epoch, null, null)
      else outlast_line('begun', greatest(t.epoch + 1, me.first_epoch), $1, null) end)
  from msg m, me
  where t.id = m.id and t.state in ('waiting', 'refused') and t.digest = m.digest and (t.due <= clock_timestamp() or m.late)
    and (not t.suspect or m.late or exists (select 1 from suspected s where s.id = m.id and s.nth <= $4::int))
  returning t.*
), came as (
  update outlast_task t set name = m.name, queue = m.queue, priority = m.priority, payload_version = m.version, body = m.body,
    options = m.options, digest = m.digest
  from msg m
  where t.id = m.id and t.state = 'cancelled' and t.digest is null and outlast_follows(m.body, m.options)
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'expired',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from (select id, name, queue, state from put union all select id, name, queue, state from woken) m
  left join outlast_objective o on o.name = m.name
  where m.state = 'cancelled'
  group by 1, 2, 3, 4
), answered as materialized (
  select m.place, t.name, t.queue,
    case
      when p.digest <> m.digest then 'conflict'
      when coalesce(p.state, w.state) = 'running' then 'begun'
      when coalesce(p.state, w.state) = 'cancelled' then 'expired'
      when p.state = 'waiting' then 'held'
      when t.digest is not null and t.digest <> m.digest then 'conflict'
      when t.state = 'running' and t.owner = $1 and t.run = $2 then 'begun'
      when t.state = 'done' then 'done'
      when t.ending = 'expired' then 'expired'
      when t.id is not null then 'held'
    end as answer,
    coalesce(w.epoch, p.epoch, t.epoch, 0)::text as epoch, coalesce(w.failures, t.failures, 0) as failures,
    coalesce(w.crashes, t.crashes, 0) as crashes, coalesce(w.suspect, t.suspect, false) as suspect,
    case when w.id is null then t.checkpoint else w.checkpoint end as checkpoint,
    coalesce(w.checkpoint_seq, t.checkpoint_seq, 0)::text as checkpoint_seq
  from given m
  left join put p on p.id = m.id
  left join woken w on w.id = m.id and w.digest = m.digest
  left join outlast_task t on t.id = m.id
), copies as (
  insert into outlast_tally (name, queue, figure, at, count)
  select name, queue, 'duplicates', '-infinity', count(*) from answered where answer in ('held', 'done') and name is not null group by name, queue
)
select (select count(*) from me)::text as open, (select count(first_epoch) from me)::text as settled, place::text as place, answer,
  epoch, failures, crashes, suspect, checkpoint, checkpoint_seq
from answered order by place`,
  beginNew: `with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  left join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
)
insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at,
  state, epoch, run, owner, crash_budget, history)
select m.id, m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, to_timestamp(m.eta_ms / 1000.0),
  to_timestamp(m.expires_ms / 1000.0), 'running', me.first_epoch, $2, me.id,
  coalesce(($3::jsonb ->> m.name)::int, ($3::jsonb ->> '*')::int), outlast_line('begun', me.first_epoch, $1, null)
from me, unnest($4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::bytea[], $10::bytea[], $11::text[], $12::bigint[], $13::bigint[])
  as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms)
where me.first_epoch is not null and (m.expires_ms is null or to_timestamp(m.expires_ms / 1000.0) > clock_timestamp())
  and (m.eta_ms is null or to_timestamp(m.eta_ms / 1000.0) <= clock_timestamp())
order by m.id
on conflict (id) do nothing
returning id, epoch::text as epoch`,
  beginProbe: `select octet_length(outlast_history(t.history, outlast_line('begun', t.epoch + 9214364837600034816 - 9214364837600034815, $2, null))) as history,
  t.body, t.options, t.checkpoint
from outlast_task t where t.id = $1`,
  beginSuspects: `with me as materialized (
  select w.id, g.generation * 1048576 + 1 as first_epoch
  from outlast_worker w
  join outlast_generation g on g.node = 'this database'
    and g.shown = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
  where w.id = $1 and w.state = 'open' for key share of w
), look as materialized (
  select q.name, p.priority
  from unnest($3::text[]) with ordinality as q(name, place)
  cross join generate_series(9, 0, -1) as p(priority)
  where exists (select 1 from me)
  order by q.place, p.priority desc
), ours as materialized (
  select t.id, t.late
  from look l
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where t.state = 'waiting' and t.suspect and t.queue = l.name and t.priority = l.priority and t.due <= statement_timestamp()
      and ($6::jsonb is null or ($6::jsonb ->> t.name)::int >= t.payload_version)
    order by t.due, t.seq limit $4 for update skip locked
  ) t
  limit $4
), others as materialized (
  select t.id, t.late
  from look l
  cross join lateral (
    select t.id, coalesce(t.expires_at <= clock_timestamp(), false) as late
    from outlast_task t
    where $6::jsonb is not null and t.state = 'waiting' and t.suspect and t.queue = l.name and t.priority = l.priority and t.due <= statement_timestamp()
      and coalesce(($6::jsonb ->> t.name)::int < t.payload_version, true)
    order by t.due, t.seq limit 100 for update skip locked
  ) t
  limit 100
), picked as materialized (
  select id, case when late then 'cancelled' else 'running' end as next from ours
  union all
  select id, case when late then 'cancelled' else 'refused' end from others
), moved as (
  update outlast_task t set
    state = p.next,
    epoch = case when p.next = 'running' then greatest(t.epoch + 9214364837600034816 - 9214364837600034815, me.first_epoch) else t.epoch end,
    run = case when p.next = 'running' then $2 else t.run end,
    owner = case when p.next = 'running' then $1 end,
    crash_budget = case when p.next = 'running' then coalesce(($5::jsonb ->> t.name)::int, ($5::jsonb ->> '*')::int) else t.crash_budget end,
    ending = case when p.next = 'cancelled' then 'expired' end,
    ended_at = case when p.next = 'cancelled' then clock_timestamp() end,
    keep_until = case when p.next = 'cancelled' then clock_timestamp() + interval '1 day' end,
    refused_at = case when p.next = 'refused' then clock_timestamp() end,
    refused_by = case when p.next = 'refused' then $1 end,
    history = outlast_history(t.history, case p.next when 'cancelled' then outlast_line('expired', t.epoch, null, null)
      when 'refused' then outlast_line('refused', t.epoch, $1, null) else outlast_line('begun', greatest(t.epoch + 1, me.first_epoch), $1, null) end)
  from picked p, me
  where t.id = p.id and t.id = any(array(select i.id from picked i))
  returning t.*
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'expired',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  where m.state = 'cancelled'
  group by 1, 2, 3, 4
)
select t.state, t.id, t.name, t.queue, t.priority, t.payload_version, case when t.state = 'running' then t.body end as body, t.options, t.digest,
  case when isfinite(t.eta) then (extract(epoch from t.eta) * 1000)::bigint::text end as eta_ms, case when isfinite(t.expires_at) then (extract(epoch from t.expires_at) * 1000)::bigint::text end as expires_ms,
  t.epoch::text as epoch, t.run, t.failures, t.crashes, t.suspect, t.checkpoint, t.checkpoint_seq::text as checkpoint_seq
from moved t`,
  buryMessages: `with put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, ending, ended_at, reason, error, version, history)
  select m.id, m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, to_timestamp(m.eta_ms / 1000.0), to_timestamp(m.expires_ms / 1000.0),
    'dead', 'dead', clock_timestamp(), m.reason, m.error, 1, outlast_line('buried', 0, null, m.error)
  from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::bytea[])
    as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, reason, error)
  on conflict (id) do nothing
  returning name, queue
)
insert into outlast_tally (name, queue, figure, at, count)
select name, queue, 'dead', '-infinity', count(*) from put group by name, queue`,
  buryRuns: `with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bytea[])
    with ordinality as i(id, epoch, run, reason, error, place)
), moved as (
  update outlast_task t set
    state = 'dead', ending = 'dead', owner = null, settled_run = i.run, settled_as = 'bury', reason = i.reason, error = i.error,
    ended_at = clock_timestamp(), version = least(t.version, 2147483646) + 1,
    history = outlast_history(t.history, outlast_line('buried', t.epoch, t.owner, i.error))
  from item i
  where t.id = i.id and t.state = 'running' and t.epoch = i.epoch and t.run = i.run
  returning t.id, t.run, t.name, t.queue
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'dead',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select case
    when m.id is not null then 'ok'
    when t.id is null then 'absent'
    when t.settled_run = i.run and t.settled_as = 'bury' then 'ok'
    else 'stale'
  end as status
from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = i.id
order by i.place`,
  cancel: `with gone as (
  delete from outlast_outbox where task_id = $1::text
  returning task_name, queue, payload_version, digest, options, '\\x5b'::bytea || args || '\\x2c'::bytea || kwargs || '\\x2c'::bytea || embed || '\\x5d'::bytea as body
), kept as (
  select * from gone where outlast_follows(body, options)
), tomb as (
  insert into outlast_task as t (id, name, queue, priority, payload_version, digest, body, options, state, ending, ended_at, keep_until, history)
  select $1::text, coalesce((select task_name from gone), 'unknown'), coalesce((select queue from gone), 'default'), 0,
    coalesce((select payload_version from kept), 1), (select digest from kept),
    coalesce((select body from kept), ''), coalesce((select options from kept), '{}'),
    'cancelled', 'cancelled', clock_timestamp(), clock_timestamp() + $2::text::bigint * interval '1 millisecond', outlast_line('cancelled', 0, null, null)
  on conflict (id) do update set
    state = 'cancelled', ending = 'cancelled', owner = null, ended_at = clock_timestamp(),
    settled_run = case when t.state = 'running' then t.run else t.settled_run end,
    settled_as = case when t.state = 'running' then 'cancel' else t.settled_as end, keep_until = excluded.keep_until, body = '',
    history = outlast_history(t.history, outlast_line('cancelled', t.epoch, t.owner, null))
  where t.state in ('waiting', 'refused', 'running')
  returning t.id, t.name, t.queue
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'cancelled',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from tomb m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select case
    when exists (select 1 from tomb) then 'ok'
    when exists (select 1 from outlast_task where id = $1::text and state = 'cancelled') then 'ok'
    else 'terminal'
  end as status`,
  checkpointList: `select task_id, epoch::text as epoch, seq::text as seq from outlast_checkpoint
where part = 0 and created_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
  and (task_id, epoch, seq) > ($2::text, $3::bigint, $4::bigint)
order by task_id, epoch, seq limit $5::int`,
  checkpointRead: `select data from outlast_checkpoint where task_id = $1 and epoch = $2::bigint and seq = $3::bigint and part = $4::int`,
  checkpointRemove: `delete from outlast_checkpoint where task_id = $1 and epoch = $2::bigint and seq = $3::bigint`,
  checkpointWrite: `insert into outlast_checkpoint (task_id, epoch, seq, part, data) values ($1, $2, $3, $4, $5)
on conflict (task_id, epoch, seq, part) do update set data = excluded.data, created_at = excluded.created_at`,
  checkpoint: `with moved as (
  update outlast_task set checkpoint = $5, checkpoint_epoch = $2, checkpoint_seq = $4
  where id = $1 and state = 'running' and epoch = $2 and run = $3
    and (checkpoint_epoch < $2 or checkpoint_seq < $4)
  returning id
)
select case
    when exists (select 1 from moved) then 'ok'
    when t.id is null then 'absent'
    when t.state = 'running' and t.epoch = $2 and t.run = $3 and t.checkpoint_epoch = $2 and t.checkpoint_seq = $4 and t.checkpoint = $5 then 'ok'
    else 'stale'
  end as status
from (select 1) one left join outlast_task t on t.id = $1`,
  chordAbandon: `with silent as (
  select c.group_id from outlast_chord c
  where c.since < statement_timestamp() - $2::bigint * interval '1 millisecond'
    and not exists (select 1 from outlast_chord_part p where p.group_id = c.group_id)
  limit $1
), begun as (
  select distinct p.group_id from outlast_chord_part p
  where p.joined_at < statement_timestamp() - $2::bigint * interval '1 millisecond'
    and not exists (
      select 1 from outlast_chord_part o
      where o.group_id = p.group_id and o.joined_at >= statement_timestamp() - $2::bigint * interval '1 millisecond')
    and (p.size is null or (select count(o.result) from outlast_chord_part o where o.group_id = p.group_id) < p.size)
  limit $1
), idle as (
  select group_id from silent union select group_id from begun
), gone as (
  delete from outlast_chord_part p using idle where p.group_id = idle.group_id
), closed as (
  delete from outlast_chord c using idle where c.group_id = idle.group_id
)
select group_id from idle`,
  chordClose: `delete from outlast_chord where group_id = $1`,
  chordJoin: `select has_result, parts from outlast_chord_join($1::text, $2::int, $3::int, $4::text, $5::bytea, $6::boolean)`,
  chordNote: `insert into outlast_chord (group_id, since, size, body)
select c.group_id, clock_timestamp(), c.size, c.body
from json_to_recordset($1::json) as c (group_id text, size integer, body text)
where not exists (select 1 from outlast_chord_part p where p.group_id = c.group_id)
  and ($2::text is null or current_setting('outlast.transaction', true) = $2::text)
order by c.group_id
on conflict (group_id) do nothing`,
  chordOpen: `select n.open, c.group_id, c.body, c.parts::text as parts, c.size, c.failed::text as failed,
  (extract(epoch from c.since) * 1000)::bigint::text as since_ms,
  (extract(epoch from clock_timestamp() - c.since) * 1000)::bigint::text as age_ms
from (select count(*)::text as open from outlast_chord) n
left join (
  select c.group_id, c.body, c.since, p.parts, coalesce(p.size, c.size) as size, p.failed
  from outlast_chord c
  cross join lateral (
    select count(result) as parts, max(size) as size, count(*) - count(result) as failed
    from outlast_chord_part where group_id = c.group_id
  ) p
  where coalesce(p.size, c.size) is null or p.parts < coalesce(p.size, c.size)
  order by c.since, c.group_id limit $1
) c on true
order by c.since, c.group_id`,
  chordParts: `select result, is_signed from outlast_chord_part where group_id = $1 and result is not null order by place`,
  claimBodies: `select o.id::text as row, '\\x5b'::bytea || o.args || '\\x2c'::bytea || o.kwargs || '\\x2c'::bytea || o.embed || '\\x5d'::bytea as body
from outlast_outbox o where o.id = any($2::bigint[]) and o.claim_token = $1`,
  claim: `with recursive quick as materialized (select set_config('synchronous_commit', 'off', true) as setting),
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
    then '\\x5b'::bytea || o.args || '\\x2c'::bytea || o.kwargs || '\\x2c'::bytea || o.embed || '\\x5d'::bytea end as body,
  o.options, o.digest, case when isfinite(o.eta) then (extract(epoch from o.eta) * 1000)::bigint::text end as eta_ms,
  case when isfinite(o.expires_at) then (extract(epoch from o.expires_at) * 1000)::bigint::text end as expires_ms, o.retries, o.claims,
  (extract(epoch from clock_timestamp() - greatest(o.created_at, case when isfinite(o.eta) then o.eta end)) * 1000)::bigint::text as due_ms,
  (date_part('epoch', greatest(o.available_at, timestamptz 'epoch')) * 1000000)::bigint::text as available_us,
  o.ordering_key is not null as is_keyed,
  case when (select count(*) from ready) >= least($3, (select count(*) from keyed) + 1)
    then coalesce((select max(k.ordering_key) from keyed k), $8) end as key_text`,
  commitPlain: `/* kept plan */
with moved as (
  update outlast_task t set
    state = 'done', ending = i.ending, result = i.result, error = i.error, owner = null, body = '', checkpoint = null,
    settled_run = i.run, settled_as = 'commit', ended_at = clock_timestamp(),
    keep_until = clock_timestamp() + i.keep_ms * interval '1 millisecond',
    history = outlast_history(t.history, outlast_line(i.ending, t.epoch, t.owner, null))
  from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[])
    as i(id, epoch, run, ending, result, error, keep_ms)
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.name, t.queue, t.ending, t.ended_at, greatest(t.created_at, case when isfinite(t.eta) then t.eta end) as since
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, f.figure,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  cross join lateral (values (m.ending), (case when o.within_ms is not null and m.ending = 'done' and m.ended_at - m.since > o.within_ms * interval '1 millisecond' then 'slow' end)) as f(figure)
  where f.figure is not null
  group by 1, 2, 3, 4
)
select 'ok' as status from moved`,
  commit: `/* kept plan */
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[])
    with ordinality as i(id, epoch, run, ending, result, error, keep_ms, place)
), moved as (
  update outlast_task t set
    state = 'done', ending = i.ending, result = i.result, error = i.error, owner = null, body = '', checkpoint = null,
    settled_run = i.run, settled_as = 'commit', ended_at = clock_timestamp(),
    keep_until = clock_timestamp() + i.keep_ms * interval '1 millisecond',
    history = outlast_history(t.history, outlast_line(i.ending, t.epoch, t.owner, null))
  from item i
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.id, t.run, t.name, t.queue, t.ending, t.ended_at, greatest(t.created_at, case when isfinite(t.eta) then t.eta end) as since
), followed as (
  insert into outlast_after (key, entry)
  select a.key, a.entry
  from unnest($8::text[], $9::text[], $10::text[], $11::bytea[]) as a(id, run, key, entry)
  join moved m on m.id = a.id and m.run = a.run
  on conflict (key) do nothing
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, f.figure,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  cross join lateral (values (m.ending), (case when o.within_ms is not null and m.ending = 'done' and m.ended_at - m.since > o.within_ms * interval '1 millisecond' then 'slow' end)) as f(figure)
  where f.figure is not null
  group by 1, 2, 3, 4
), answer as materialized (
  select i.place, t.name, t.queue, case
      when m.id is not null then 'ok'
      when t.id is null then 'absent'
      when t.settled_run = i.run and t.settled_as = 'commit' then 'ok'
      else 'stale'
    end as status
  from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = any($1::text[]) and t.id = i.id
), refused as (
  insert into outlast_tally (name, queue, figure, at, count)
  select name, queue, 'stale', '-infinity', count(*) from answer where status = 'stale' group by name, queue
)
select status from answer order by place`,
  condemnExpired: `with dead as materialized (
  select id, host from outlast_worker where state = 'open' and deadline < clock_timestamp() order by id for update skip locked
), closed as (
  update outlast_worker w set state = 'closed', death = case when exists (
    select 1 from outlast_worker o where o.state = 'open' and o.host = dead.host and o.deadline >= clock_timestamp()
  ) then $1 else $2 end
  from dead where w.id = dead.id and w.deadline < clock_timestamp() returning w.id, w.death
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, c.id, c.death
from (select 1) one left join closed c on true`,
  condemnProcess: `with dead as materialized (
  select id from outlast_worker where state = 'open' and process = $1 order by id for update
), closed as (
  update outlast_worker w set state = 'closed', death = $2 from dead where w.id = dead.id returning w.id, w.death
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, c.id, c.death
from (select 1) one left join closed c on true`,
  condemnWorker: `with dead as materialized (
  select id from outlast_worker where state = 'open' and id = $1 for update
), closed as (
  update outlast_worker w set state = 'closed', death = $2 from dead where w.id = dead.id returning w.id, w.death
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, c.id, c.death
from (select 1) one left join closed c on true`,
  controlConsumers: `select w.id, w.process, w.host, w.pid, array_to_json(w.queues)::text as queues, w.draining,
  (select count(*) from outlast_task t where t.owner = w.id and t.state = 'running')::text as running
from outlast_worker w
where w.state = 'open' and w.deadline >= clock_timestamp()
order by w.id collate "C"`,
  controlDrain: `update outlast_worker set draining = true
where id = $1 and state = 'open' and deadline >= clock_timestamp() returning id`,
  controlLook: `with said as (
  update outlast_worker set queues = $2::text[] where id = $1 and queues <> $2::text[]
)
select coalesce((select draining from outlast_worker where id = $1), false) as draining,
  array_to_json(array(select name from outlast_queue order by name collate "C"))::text as paused`,
  controlPause: `insert into outlast_queue (name) values ($1) on conflict (name) do nothing returning name`,
  controlPaused: `select name from outlast_queue order by name collate "C"`,
  controlResume: `delete from outlast_queue where name = $1 returning name`,
  countDeadLetters: `select task_name as name, count(*)::text as count from outlast_dead_letter
where ($1::bigint is null or dead_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
  and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
  and ($3::text is null or task_name like $3::text escape E'\\\\')
group by task_name order by task_name collate "C"`,
  countDead: `select name, count(*)::text as count from outlast_task
where state = 'dead'
  and ($1::bigint is null or ended_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
  and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
  and ($3::text is null or name like $3::text escape E'\\\\')
group by name order by name collate "C"`,
  databaseMark: `select pg_try_advisory_xact_lock_shared($1::text::bigint)::text as marked, to_regclass('outlast_outbox')::oid::text as outbox,
  current_database()::text || coalesce(' on ' || host(inet_server_addr()) || ':' || inet_server_port(), '') as name`,
  databaseSeen: `select to_regclass('outlast_outbox')::oid::text as outbox, case when pg_is_in_recovery() then 'yes' else 'no' end as is_standby,
  case when exists (
    select 1 from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = $1::text::bigint
  ) then 'yes' else 'no' end as is_marked`,
  deferClaim: `update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp(),
  available_at = clock_timestamp() + ($3::bigint[])[array_position($2::bigint[], o.id)] * interval '1 millisecond'
where o.id = any($2::bigint[]) and o.claim_token = $1 and o.state = 'claimed' returning o.id::text as row`,
  doctorLedger: `with reaping as (
  select count(*) as workers from outlast_worker where state = 'open' and deadline >= clock_timestamp()
), bound as (
  select clock_timestamp() - case workers when 0 then least($1::bigint, $2::bigint) else $1::bigint end * interval '1 millisecond' as before
  from reaping
)
select
  (select count(*) from outlast_task t where t.state = 'running' and not exists (
    select 1 from outlast_worker w where w.id = t.owner and w.state = 'open'
      and w.deadline >= (select before from bound)))::text as orphans,
  (select count(*) from outlast_after where created_at < (select before from bound))::text as follow_ups,
  (select workers from reaping)::text as workers`,
  doctorOutbox: `select
  (select count(*) from outlast_outbox where schema_version > 2 and schema_version > $1)::text as unsupported,
  (select count(*) from outlast_outbox o where o.state = 'claimed' and (
      o.claimed_until < clock_timestamp() - $2::bigint * interval '1 millisecond'
      or (o.updated_at < clock_timestamp() - $2::bigint * interval '1 millisecond' and not exists (
        select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= clock_timestamp() - $2::bigint * interval '1 millisecond'))
    ))::text as orphans,
  (select count(*) from outlast_relay where lease_until >= clock_timestamp())::text as relays,
  (select count(*) from outlast_dead_letter)::text as dead,
  (select count(distinct ordering_key) from outlast_dead_letter where parks_key and ordering_key is not null)::text as parked`,
  doctorQueues: `select t.queue, count(*)::text as waiting, exists (select 1 from outlast_queue p where p.name = t.queue) as paused
from outlast_task t
where t.state = 'waiting' and t.due < clock_timestamp() - $1::bigint * interval '1 millisecond'
  and not exists (
    select 1 from outlast_worker w where w.state = 'open' and w.deadline >= clock_timestamp() and t.queue = any(w.queues)
  )
group by t.queue order by t.queue collate "C"`,
  doctorServer: `select current_setting('server_version') as version, current_setting('server_version_num') as number,
  current_setting('autovacuum') as autovacuum, current_setting('track_counts') as track_counts,
  (extract(epoch from clock_timestamp()) * 1000)::bigint::text as now_ms,
  pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_others`,
  doctorSlots: `select slot_name as name, greatest(age(xmin), age(catalog_xmin))::text as transactions
from pg_replication_slots where not active and (xmin is not null or catalog_xmin is not null) order by slot_name`,
  doctorSnapshots: `select * from (
  select 'transaction' as kind, a.pid::text as id, coalesce(a.application_name, '') as application, coalesce(a.usename, '') as who,
    coalesce(a.state, '') as state, to_char(a.query_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as query_started,
    (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint as age_ms
  from pg_stat_activity a
  where a.datname = current_database() and a.pid <> pg_backend_pid() and a.xact_start is not null
    and (a.backend_xmin is not null or a.backend_xid is not null)
  union all
  select 'prepared', p.gid, '', p.owner, 'prepared', null, (extract(epoch from clock_timestamp() - p.prepared) * 1000)::bigint
  from pg_prepared_xacts p where p.database = current_database()
) s where s.age_ms >= $1::bigint order by s.age_ms desc limit 20`,
  doctorTables: `select c.relname as name, coalesce(array_to_string(c.reloptions, ','), '') as options, pg_total_relation_size(c.oid)::text as bytes,
  coalesce(s.n_live_tup, 0)::text as live, coalesce(s.n_dead_tup, 0)::text as dead,
  to_char(greatest(s.last_autovacuum, s.last_vacuum) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as vacuumed
from (values ('outlast_outbox'), ('outlast_task'), ('outlast_worker'), ('outlast_relay')) as t(name)
join pg_class c on c.oid = to_regclass(t.name)
left join pg_stat_user_tables s on s.relid = c.oid
order by c.relname`,
  doorFence: `select id from outlast_task
where id = $1::text and state = 'running' and epoch = $2::text::bigint and run = $3::text for update`,
  doorKnown: `select 1 as known from outlast_task where id = $1::text`,
  doorLimitIdle: `select set_config('idle_in_transaction_session_timeout', '10s', true) as now
where current_setting('idle_in_transaction_session_timeout') = '0'`,
  doorLimitWait: `with b as materialized (select current_setting('lock_timeout') as before)
select b.before, set_config('lock_timeout', '5s', true) as now from b`,
  doorRestoreWait: `select set_config('lock_timeout', $1::text, true) as now`,
  doorStep: `insert into outlast_step (task_id, step, epoch)
select $1::text, $2::text, $3::text::bigint
where not exists (select 1 from outlast_effect where effect_key = $1::text and step = $2::text)
on conflict (task_id, step) do nothing returning step`,
  doorValue: `update outlast_step set value = decode($3::text, 'base64') where task_id = $1::text and step = $2::text`,
  effectFind: `select encode(value, 'base64') as value from outlast_effect where effect_key = $1::text and step = $2::text`,
  effectKeep: `update outlast_effect set value = decode($3::text, 'base64') where effect_key = $1::text and step = $2::text`,
  effectKeyForget: `delete from outlast_effect_key where key_hash = $1 returning key_hash`,
  effectMark: `with o as (
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
select o.origin, (select count(*) from mine)::text as is_new from o`,
  enqueueKeyed: `with held as (
  insert into outlast_send_key as k (key, task_id, fingerprint, free_at)
  select $18::text, $1::text, $19::text, now() + $20::text::bigint * interval '1 millisecond'
  on conflict (key) do update set
    task_id = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.task_id else k.task_id end,
    fingerprint = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.fingerprint else k.fingerprint end,
    free_at = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.free_at else k.free_at end
  returning k.task_id, k.fingerprint, k.free_at
), written as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
    schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args,
    redacted_kwargs, idempotency_key)
  select $1::text, $2::text, $3::text, $4::text::smallint, decode($5::text, 'base64'), decode($6::text, 'base64'),
    decode($7::text, 'base64'), decode($8::text, 'base64'), $9::text, $10::text::smallint, $11::text::smallint,
    coalesce(to_timestamp($12::text::double precision / 1000), now()),
    to_timestamp($12::text::double precision / 1000), to_timestamp($13::text::double precision / 1000),
    $14::text, $15::text::boolean, decode($16::text, 'base64'), decode($17::text, 'base64'), $18::text
  where exists (select 1 from held where held.task_id = $1::text
    and held.free_at = now() + $20::text::bigint * interval '1 millisecond')
  on conflict (task_id) do nothing
  returning task_id
)
select
  (select count(*) from written)::text as written,
  (select held.task_id from held) as held_by,
  (select held.fingerprint from held) as held_fingerprint,
  (select o.digest from outlast_outbox o where o.task_id = $1::text) as earlier_digest,
  (select count(*) from (select pg_notify('outlast_outbox', '') from written where $21::text is not null) note)::text as notified`,
  enqueueMany: `with item as (
  select r.*, row_number() over () as place
  from jsonb_to_recordset($1::text::jsonb) as r(
    task_id text, task_name text, queue text, priority text, args text, kwargs text, embed text, options text,
    digest text, schema_version text, payload_version text, eta_ms text, expires_ms text, ordering_key text,
    parks_key text, redacted_args text, redacted_kwargs text, idempotency_key text, fingerprint text, key_window_ms text)
  where $3::text is null or current_setting('outlast.transaction', true) = $3::text
), wanted as (
  select distinct on (idempotency_key collate "C") * from item where idempotency_key is not null
  order by idempotency_key collate "C", place
), held as (
  insert into outlast_send_key as k (key, task_id, fingerprint, free_at)
  select idempotency_key, task_id, fingerprint, now() + key_window_ms::bigint * interval '1 millisecond'
  from wanted
  on conflict (key) do update set
    task_id = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.task_id else k.task_id end,
    fingerprint = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.fingerprint else k.fingerprint end,
    free_at = case when k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id) then excluded.free_at else k.free_at end
  returning k.key, k.task_id, k.fingerprint, k.free_at
), written as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
    schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args,
    redacted_kwargs, idempotency_key)
  select i.task_id, i.task_name, i.queue, i.priority::smallint, decode(i.args, 'base64'), decode(i.kwargs, 'base64'),
    decode(i.embed, 'base64'), decode(i.options, 'base64'), i.digest, i.schema_version::smallint,
    i.payload_version::smallint, coalesce(to_timestamp(i.eta_ms::double precision / 1000), now()),
    to_timestamp(i.eta_ms::double precision / 1000), to_timestamp(i.expires_ms::double precision / 1000),
    i.ordering_key, i.parks_key::boolean, decode(i.redacted_args, 'base64'), decode(i.redacted_kwargs, 'base64'),
    i.idempotency_key
  from item i
  where i.idempotency_key is null or exists (select 1 from held h where h.key = i.idempotency_key and h.task_id = i.task_id
    and h.free_at = now() + i.key_window_ms::bigint * interval '1 millisecond')
  order by i.place
  on conflict (task_id) do nothing
  returning task_id
), note as (select pg_notify('outlast_outbox', '') from (select 1 from written limit 1) w where $2::text is not null)
select i.place::text as place, h.task_id as held_by, h.fingerprint as held_fingerprint, o.digest as earlier_digest
from item i
left join held h on h.key = i.idempotency_key
left join outlast_outbox o on o.task_id = i.task_id
left join written w on w.task_id = i.task_id
where w.task_id is null and (select count(*) from note) >= 0
union all
select '0', null, null, null
where $3::text is not null and current_setting('outlast.transaction', true) is distinct from $3::text`,
  enqueueNotify: `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
  schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args, redacted_kwargs)
values ($1::text, $2::text, $3::text, $4::text::smallint, decode($5::text, 'base64'), decode($6::text, 'base64'),
  decode($7::text, 'base64'), decode($8::text, 'base64'), $9::text, $10::text::smallint, $11::text::smallint,
  coalesce(to_timestamp($12::text::double precision / 1000), now()),
  to_timestamp($12::text::double precision / 1000), to_timestamp($13::text::double precision / 1000),
  $14::text, $15::text::boolean, decode($16::text, 'base64'), decode($17::text, 'base64'))
returning pg_notify('outlast_outbox', '')::text as notified`,
  enqueuePlainNotify: `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at)
values ($1::text, $2::text, $3::text, $4::text::smallint, '[]', $5::text::bytea,
  '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}', $6::text::bytea, $7::text, 1,
  $8::text::smallint, now())
returning pg_notify('outlast_outbox', '')::text as notified`,
  enqueuePlain: `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at)
values ($1::text, $2::text, $3::text, $4::text::smallint, '[]', $5::text::bytea,
  '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}', $6::text::bytea, $7::text, 1,
  $8::text::smallint, now())`,
  enqueue: `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
  schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args, redacted_kwargs)
values ($1::text, $2::text, $3::text, $4::text::smallint, decode($5::text, 'base64'), decode($6::text, 'base64'),
  decode($7::text, 'base64'), decode($8::text, 'base64'), $9::text, $10::text::smallint, $11::text::smallint,
  coalesce(to_timestamp($12::text::double precision / 1000), now()),
  to_timestamp($12::text::double precision / 1000), to_timestamp($13::text::double precision / 1000),
  $14::text, $15::text::boolean, decode($16::text, 'base64'), decode($17::text, 'base64'))`,
  evacuateEnd: `with gone as (
  delete from outlast_task where id = $1 and epoch = $2 and state in ('waiting', 'refused', 'dead') returning id, epoch, run
), fence as (
  insert into outlast_fence (task_id, epoch, run, look_at)
  select g.id, g.epoch, coalesce(g.run, ''), clock_timestamp() + interval '1 minute' from gone g
  where exists (select 1 from outlast_step s where s.task_id = g.id)
  on conflict (task_id) do nothing
)
select case
    when exists (select 1 from gone) then 'ok'
    when exists (select 1 from outlast_task where id = $1) then 'stale'
    else 'absent'
  end as status`,
  evacuateList: `select id, name, queue, priority, payload_version, body, options, digest,
  case when isfinite(eta) then (extract(epoch from eta) * 1000)::bigint::text end as eta_ms, case when isfinite(expires_at) then (extract(epoch from expires_at) * 1000)::bigint::text end as expires_ms,
  epoch::text as epoch, case when state = 'dead' then reason end as reason, error,
  (extract(epoch from least(greatest(due, clock_timestamp()), clock_timestamp() + interval '100 years') - clock_timestamp()) * 1000)::bigint::text as due_in_ms
from (
  select t.*, row_number() over () as number, sum(octet_length(t.body)::float8) over (rows unbounded preceding) as bytes
  from (select * from outlast_task where state in ('waiting', 'refused', 'dead') limit $1) t
) t
where number = 1 or bytes <= $2::float8`,
  fail: `/* kept plan */
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::boolean[])
    with ordinality as i(id, epoch, run, error, delay_ms, reason, is_crash, place)
), moved as (
  update outlast_task t set
    state = case when i.delay_ms is null then 'dead' else 'waiting' end,
    failures = least(t.failures, 1073741822) + case when i.is_crash then 0 else 1 end,
    crashes = least(t.crashes, 1073741822) + case when i.is_crash then 1 else 0 end,
    owner = null, settled_run = i.run, settled_as = 'fail', error = i.error,
    due = case when i.is_crash then t.due else clock_timestamp() + coalesce(i.delay_ms, 0) * interval '1 millisecond' end,
    ending = case when i.delay_ms is null then 'dead' end,
    ended_at = case when i.delay_ms is null then clock_timestamp() end,
    reason = case when i.delay_ms is null then i.reason end,
    version = case when i.delay_ms is null then least(t.version, 2147483646) + 1 else t.version end,
    history = outlast_history(t.history, outlast_line(case when i.delay_ms is null then 'dead' when i.is_crash then 'crashed' else 'failed' end, t.epoch, t.owner, i.error))
  from item i
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.id, t.run, t.name, t.queue, t.state, i.is_crash
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, f.figure,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  cross join lateral (values (case when not m.is_crash then 'failed' end), (case when m.state = 'dead' then 'dead' when m.is_crash then 'resurrected' else 'retried' end)) as f(figure)
  where f.figure is not null
  group by 1, 2, 3, 4
)
select case
    when m.id is not null then 'ok'
    when t.id is null then 'absent'
    when t.settled_run = i.run and t.settled_as = 'fail' then 'ok'
    else 'stale'
  end as status
from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = any($1::text[]) and t.id = i.id
order by i.place`,
  fenceTake: `insert into outlast_fence as f (task_id, epoch, run, look_at)
values ($1::text, $2::text::bigint, $3::text, clock_timestamp() + interval '1 minute')
on conflict (task_id) do update set
  run = case when excluded.epoch > f.epoch then excluded.run else f.run end,
  epoch = greatest(f.epoch, excluded.epoch),
  look_at = excluded.look_at, is_over = false, updated_at = clock_timestamp()
returning epoch::text as epoch, run`,
  fencesDue: `select task_id, is_over from outlast_fence where look_at < clock_timestamp() order by look_at limit $1`,
  fencesForget: `with over as materialized (
  select task_id from outlast_fence
  where task_id = any($1::text[]) and is_over and look_at < clock_timestamp() for update skip locked
), gone as (
  delete from outlast_fence f using over where f.task_id = over.task_id returning f.task_id
), steps as (
  delete from outlast_effect e using gone where e.task_id = gone.task_id and e.ttl_ms is null
), also as (
  delete from outlast_step s using gone where s.task_id = gone.task_id
), keyed as (
  update outlast_effect e set ends_at = clock_timestamp() + e.ttl_ms * interval '1 millisecond'
  from gone where e.task_id = gone.task_id and e.ttl_ms is not null
)
select count(*)::text as forgotten from gone`,
  fencesLater: `update outlast_fence set is_over = false, look_at = clock_timestamp()
  + least(greatest(clock_timestamp() - updated_at, interval '1 minute'), interval '1 hour')
where task_id in (
  select task_id from outlast_fence where task_id = any($1::text[]) and look_at < clock_timestamp() for update skip locked
)`,
  fencesOver: `update outlast_fence set is_over = true, look_at = clock_timestamp() + $2 * interval '1 millisecond'
where task_id in (
  select task_id from outlast_fence where task_id = any($1::text[]) and look_at < clock_timestamp() for update skip locked
)`,
  forgetTests: `with old as materialized (
  select clock_timestamp() - $2 * interval '1 millisecond' as since
), sent as (
  delete from outlast_outbox o using old where starts_with(o.task_id, $1) and o.created_at <= old.since
), held as (
  delete from outlast_send_key k using old
  where starts_with(k.task_id, $1) and k.free_at - interval '1 day' <= old.since
), steps as (
  delete from outlast_effect e using old where starts_with(e.task_id, $1) and e.created_at <= old.since
)
delete from outlast_fence f using old where starts_with(f.task_id, $1) and f.updated_at <= old.since`,
  idempotencyAcquire: `insert into outlast_idempotency as k (key, state, task_id, epoch, digest, expires_at, origin, ttl_ms, run)
values ($1::text, 'held', $3::text, $4::bigint, $2::text, clock_timestamp() + $5::bigint * interval '1 millisecond',
  $3::text, $9::bigint, $10::text)
on conflict (key) do update set
  (state, task_id, epoch, digest, result, held_at, reviewed_at, expires_at, waiters, origin, ttl_ms, freed_by, run) = (
    select
      case when d.takes then 'held' else k.state end,
      case when d.takes then $3::text else k.task_id end,
      case when d.takes then $4::bigint else k.epoch end,
      case when d.takes then $2::text else k.digest end,
      case when d.takes then null else k.result end,
      case when d.takes and (d.is_over or d.is_free or k.task_id <> $3::text) then d.at else k.held_at end,
      case when d.takes then d.at else k.reviewed_at end,
      case when d.takes then d.at + $5::bigint * interval '1 millisecond' else k.expires_at end,
      case
        when d.is_over then '{}'::jsonb
        when d.takes then k.waiters - $3::text
        when d.waits then jsonb_set(k.waiters, array[$3::text], to_jsonb(coalesce((k.waiters ->> $3::text)::int, 0) + 1))
        else k.waiters
      end,
      case when d.is_over then $3::text else coalesce(k.origin, k.task_id) end,
      case when d.takes then $9::bigint else k.ttl_ms end,
      case when d.takes then null else k.freed_by end,
      case when d.takes then $10::text else k.run end
    from (
      select c.at, c.is_over, c.is_free,
        c.is_over or c.is_free
          or (k.state = 'held' and k.task_id = $3::text
            and (k.epoch < $4::bigint or (k.epoch = $4::bigint and coalesce(k.run, $10::text) = $10::text)))
          or (k.state = 'held' and k.task_id <> $3::text and k.task_id = $6::text and k.epoch = $7::bigint) is true as takes,
        k.state = 'held' and k.task_id <> $3::text and k.digest = $2::text and $5::bigint is null
          and ((select count(*) from jsonb_object_keys(k.waiters)) < $8::int or k.waiters ? $3::text) as waits
      from (
        select now.at, coalesce(k.expires_at <= now.at, false) as is_over,
          coalesce(k.freed_by = k.task_id || '@' || k.epoch, false) as is_free
        from (select clock_timestamp() as at) now
      ) c
    ) d
  )
returning k.state, k.task_id, k.epoch::text as epoch, k.digest, k.result, k.origin, k.run,
  (extract(epoch from clock_timestamp() - k.held_at) * 1000)::bigint::text as held_ms,
  (k.waiters ->> $3::text)::int as asked`,
  idempotencyComplete: `with moved as (
  update outlast_idempotency k set
    state = 'done', result = $5::bytea, expires_at = clock_timestamp() + $6::bigint * interval '1 millisecond'
  where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text and k.state = 'held'
    and k.freed_by is distinct from k.task_id || '@' || k.epoch
    and coalesce(k.expires_at > clock_timestamp(), true)
  returning k.waiters
)
select m.waiters::text as waiters from moved m
union all
select k.waiters::text from outlast_idempotency k
where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text and k.state = 'done' and k.expires_at > clock_timestamp()`,
  idempotencyFree: `with mine as materialized (
  select k.key, k.waiters, k.ttl_ms is null or $5::boolean as is_forgotten from outlast_idempotency k
  where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text
    and ($5::boolean or (k.state = 'held' and k.freed_by is distinct from k.task_id || '@' || k.epoch))
    and coalesce(k.expires_at > clock_timestamp(), true)
  for update
), forgotten as (
  delete from outlast_idempotency k using mine where k.key = mine.key and mine.is_forgotten
), freed as (
  update outlast_idempotency k set
    freed_by = k.task_id || '@' || k.epoch, expires_at = clock_timestamp() + k.ttl_ms * interval '1 millisecond', waiters = '{}'
  from mine where k.key = mine.key and not mine.is_forgotten
)
select mine.waiters::text as waiters from mine`,
  idempotencyPrune: `delete from outlast_idempotency k using (
  select key from outlast_idempotency where expires_at <= clock_timestamp() order by expires_at limit $1 for update skip locked
) over
where k.key = over.key returning k.key`,
  idempotencyRead: `select case when k.freed_by = k.task_id || '@' || k.epoch then 'free' else k.state end as state,
  coalesce(k.origin, k.task_id) as origin, k.task_id, k.epoch::text as epoch, k.run, k.digest, k.result, k.waiters::text as waiters,
  (extract(epoch from clock_timestamp() - k.held_at) * 1000)::bigint::text as held_ms,
  (extract(epoch from k.expires_at - clock_timestamp()) * 1000)::bigint::text as left_ms
from outlast_idempotency k
where k.key = $1::text and coalesce(k.expires_at > clock_timestamp(), true)`,
  idempotencyRenew: `update outlast_idempotency k set expires_at = clock_timestamp() + $5::bigint * interval '1 millisecond'
where k.key = $1::text and k.task_id = $2::text and k.epoch = $3::bigint and coalesce(k.run, $4::text) = $4::text and k.state = 'held'
  and k.freed_by is distinct from k.task_id || '@' || k.epoch and k.expires_at > clock_timestamp()
returning k.key`,
  idempotencyReview: `with old as (
  select key from outlast_idempotency
  where expires_at is null and reviewed_at <= clock_timestamp() - $1::bigint * interval '1 millisecond'
  order by reviewed_at limit $2 for update skip locked
)
update outlast_idempotency k set reviewed_at = clock_timestamp() from old
where k.key = old.key
returning k.key, k.task_id, k.epoch::text as epoch, k.run,
  (extract(epoch from clock_timestamp() - k.held_at) * 1000)::bigint::text as held_ms`,
  isolateTask: `with moved as (
  update outlast_task t set
    state = 'dead', ending = 'dead', ended_at = clock_timestamp(), reason = 'ERR_UNDECODABLE', error = $2, refused_at = null, refused_by = null,
    version = least(t.version, 2147483646) + 1
  where t.id = $1 and t.state in ('waiting', 'refused')
  returning t.id, t.name, t.queue, t.epoch
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'dead',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name and m.epoch > 0
  group by 1, 2, 3, 4
)
select id, name, queue from moved`,
  ledgerDead: `select count(*)::text as dead from outlast_task where state = 'dead'`,
  ledgerEnded: `with withdrawn as materialized (
  select count(*) filter (where ending = 'dead') as purged, count(*) filter (where ending = 'expired') as expired,
    count(*) filter (where ending = 'cancelled') as cancelled
  from outlast_task where state = 'cancelled'
), forgotten as (
  select coalesce(sum(count) filter (where ending = 'dead'), 0) as purged,
    coalesce(sum(count) filter (where ending = 'expired'), 0) as expired,
    coalesce(sum(count) filter (where ending = 'cancelled'), 0) as cancelled,
    coalesce(sum(count) filter (where ending in ('done', 'discarded')), 0) as done
  from outlast_counter
)
select ((select count(*) from outlast_task where keep_until is not null) - w.purged - w.expired - w.cancelled + f.done)::text as done,
  (w.cancelled + f.cancelled)::text as cancelled, (w.expired + f.expired)::text as expired, (w.purged + f.purged)::text as purged,
  (select count(*) from outlast_task where state = 'dead')::text as dead,
  (select count(*) from outlast_worker where state = 'open' and deadline >= clock_timestamp())::text as workers
from withdrawn w, forgotten f`,
  ledgerFailing: `select name, sum(count)::text as failures from (
  select name, failures + crashes as count from outlast_task
  where failures + crashes > 0 and state in ('waiting', 'running', 'dead')
  union all
  select name, failures + crashes from outlast_task where state = 'refused' and failures + crashes > 0
  union all
  select name, 1 from outlast_task where state = 'dead' and failures + crashes = 0
) f group by name order by sum(count) desc, name collate "C" limit $1`,
  ledgerInspect: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created, history from outlast_task where id = $1`,
  ledgerLetter: `select id, name, queue, reason, error, version,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires, body, options, history
from outlast_task where state = 'dead' and id = $1`,
  ledgerLettersNewest: `select id, name, queue, reason, error, version,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  case when octet_length(options) <= 65536 then options else '' end as options
from outlast_task
where state = 'dead' and ($1::text is null or (ended_at, id collate "C") < ($1::text::timestamptz, $2::text))
  and ($3::text is null or name like $3::text escape E'\\\\')
order by ended_at desc, id collate "C" desc limit $4`,
  ledgerLettersOldest: `select id, name, queue, reason, error, version,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  case when octet_length(options) <= 65536 then options else '' end as options
from outlast_task
where state = 'dead' and ($1::text is null or (ended_at, id collate "C") > ($1::text::timestamptz, $2::text))
  and ($3::text is null or name like $3::text escape E'\\\\')
order by ended_at, id collate "C" limit $4`,
  ledgerMoments: `select t.id, t.version, w.process, t.checkpoint, (extract(epoch from t.due) * 1000)::bigint::text as due_ms
from outlast_task t left join outlast_worker w on w.id = t.owner
where t.id = any($1::text[]) and t.state in ('waiting', 'refused', 'running', 'dead')`,
  ledgerNextDue: `/* kept plan */
select (extract(epoch from least(greatest(min(t.due), clock_timestamp()), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint::text as wait_ms
from unnest($1::text[]) as q(name)
cross join generate_series(0, 9) as p(priority)
cross join lateral (
  (select t.due from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority order by t.due, t.seq limit 1)
  union all
  (select t.due from outlast_task t
    where $2::int > 0 and t.state = 'waiting' and t.suspect and t.queue = q.name and t.priority = p.priority order by t.due, t.seq limit 1)
) t
having min(t.due) is not null`,
  ledgerQueues: `select queue, sum(waiting)::text as waiting, sum(running)::text as running from (
  select queue, count(*) as waiting, 0 as running from outlast_task where state = 'waiting' and not suspect group by queue
  union all
  select queue, count(*), 0 from outlast_task where state = 'waiting' and suspect group by queue
  union all
  select queue, count(*), 0 from outlast_task where state = 'refused' group by queue
  union all
  select queue, 0, count(*) from outlast_task where state = 'running' group by queue
) q group by queue order by queue collate "C"`,
  ledgerRecent: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created, history
from outlast_task order by created_at desc limit $1`,
  ledgerScheduled: `select count(*)::text as scheduled
from unnest($1::text[]) as q(name)
cross join generate_series(0, 9) as p(priority)
join lateral (
  select 1 from outlast_task t
  where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority and t.due > statement_timestamp() and t.epoch = 0
) t on true`,
  ledgerStates: `select id, case state when 'refused' then 'waiting' else state end as state from outlast_task where id = any($1::text[])`,
  ledgerView: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  options, body, history, result, ending, suspect, refused_by, state = 'refused' as is_refused,
  (extract(epoch from clock_timestamp()) * 1000)::bigint::text as now_ms
from outlast_task where id = $1`,
  ledgerWalkOver: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  to_char(keep_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as kept
from outlast_task
where keep_until is not null and keep_until <= $1::text::timestamptz and (keep_until, id collate "C") < ($1::text::timestamptz, $2::text)
order by keep_until desc, id collate "C" desc limit $3`,
  ledgerWalkRefused: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  seq::text as seq
from outlast_task
where state = 'refused' and (queue, name, due, seq) > ($1::text, $2::text, $3::text::timestamptz, $4::text::bigint)
order by queue, name, outlast_task.due, outlast_task.seq limit $5`,
  ledgerWalkRunning: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  substring(history from greatest(1, octet_length(history) - 4095)) as history
from outlast_task
where state = 'running' and id collate "C" > $1::text order by id collate "C" limit $2`,
  ledgerWalkSuspects: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  priority, seq::text as seq
from outlast_task
where state = 'waiting' and suspect
  and (queue, priority, due, seq) > ($1::text, $2::smallint, $3::text::timestamptz, $4::text::bigint)
order by queue, priority, outlast_task.due, outlast_task.seq limit $5`,
  ledgerWalkWaiting: `select id, name, queue, case state when 'refused' then 'waiting' else state end as state, epoch::text as epoch, failures, crashes, owner, reason, error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as due,
  to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended,
  case when octet_length(options) <= 65536 then options else '' end as options,
  priority, seq::text as seq
from outlast_task
where state = 'waiting' and not suspect
  and (queue, priority, due, seq) > ($1::text, $2::smallint, $3::text::timestamptz, $4::text::bigint)
order by queue, priority, outlast_task.due, outlast_task.seq limit $5`,
  lockOrderingKeys: `select pg_advisory_xact_lock(k.number)::text as locked
from (
  select distinct hashtextextended(key, 31372865309864820) as number
  from jsonb_array_elements_text($1::text::jsonb) as key
  order by 1
) k`,
  markSent: `update outlast_outbox
set state = 'sent', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp(),
  available_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
where id = any($2::bigint[]) and claim_token = $1 and state = 'claimed'
returning id::text as row`,
  moveIn: `with item as (
  select *, to_timestamp(eta_ms / 1000.0) as eta, to_timestamp(expires_ms / 1000.0) as expires_at
  from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], $10::text[],
    $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::bytea[])
    as i(id, name, queue, priority, version, args, kwargs, embed, options, digest, eta_ms, expires_ms, delay_ms, reason, error)
), marked as (
  insert into outlast_moved (task_id) select id from item on conflict (task_id) do nothing returning task_id
), put as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, available_at, eta, expires_at)
  select i.id, i.name, i.queue, i.priority, i.args, i.kwargs, i.embed, i.options, i.digest, 1, i.version,
    clock_timestamp() + i.delay_ms * interval '1 millisecond', i.eta, i.expires_at
  from item i join marked m on m.task_id = i.id where i.reason is null
  on conflict (task_id) do nothing returning task_id
), letters as (
  insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, eta, expires_at, retries, failure_reason, error_history, created_at)
  select i.id, 1, i.name, i.queue, i.priority, i.args, i.kwargs, i.embed, i.options, i.digest, 1, i.version, i.eta, i.expires_at, 0,
    i.reason, outlast_line('dead', 0, null, i.error), clock_timestamp()
  from item i join marked m on m.task_id = i.id where i.reason is not null
  on conflict (task_id) do nothing returning task_id
)
select ((select count(*) from put) + (select count(*) from letters))::text as moved,
  (select count(*) from (select pg_notify('outlast_outbox', '') from put limit 1) n)::text as notified`,
  move: `with plain as materialized (
  select o.* from outlast_outbox o
  where o.state = 'pending' and o.ordering_key is null and o.available_at <= statement_timestamp() and o.schema_version <= $2
    and o.available_at >= coalesce(to_timestamp($3::float8 / 1000), '-infinity')
  order by o.available_at, o.id limit $1 for update skip locked
), keyed as materialized (
  select o.* from outlast_outbox o
  where o.state = 'pending' and o.ordering_key is not null and o.available_at <= statement_timestamp() and o.schema_version <= $2
    and o.available_at >= coalesce(to_timestamp($3::float8 / 1000), '-infinity')
    and (select f.id = o.id or (f.state = 'pending' and f.available_at <= statement_timestamp() and f.schema_version <= $2
          and position('"limited":true'::bytea in f.options) = 0)
        from outlast_outbox f where f.ordering_key = o.ordering_key order by f.id limit 1)
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key)
  order by o.available_at, o.id limit $1 for update skip locked
), found as (
  select o.*, position('"limited":true'::bytea in o.options) > 0 as is_limited
  from (select * from plain union all select * from keyed) o
), chained as (
  select f.*, row_number() over k as nth, sum(f.is_limited::int) over k as limits,
    lag(f.id) over k is not distinct from
      case when f.ordering_key is not null then (select max(e.id) from outlast_outbox e where e.ordering_key = f.ordering_key and e.id < f.id) end as follows
  from found f window k as (partition by f.ordering_key order by f.id)
), due as materialized (
  select c.* from (select c.*, bool_and(c.follows) over (partition by c.ordering_key order by c.id) as is_whole from chained c) c
  where c.ordering_key is null or (c.is_whole and (c.limits = 0 or c.nth = 1))
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due, created_at, history)
  select task_id, task_name, queue, priority, payload_version,
    '\\x5b'::bytea || args || '\\x2c'::bytea || kwargs || '\\x2c'::bytea || embed || '\\x5d'::bytea,
    options, digest, eta, expires_at, 'waiting', statement_timestamp(), created_at, outlast_line('relayed', 0, null, null)
  from due where not is_limited order by due.id
  on conflict (id) do nothing
  returning id
), known as materialized (
  select d.task_id, coalesce(t.digest <> d.digest, false) as is_other from due d join outlast_task t on t.id = d.task_id
), buried as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, created_at,
    ending, ended_at, reason, error, version, history)
  select d.task_id || '#' || left(d.digest, 16), task_name, queue, priority, payload_version,
    '\\x5b'::bytea || args || '\\x2c'::bytea || kwargs || '\\x2c'::bytea || embed || '\\x5d'::bytea,
    options, digest, eta, expires_at, 'dead', created_at, 'dead', clock_timestamp(), 'ERR_DIGEST',
    convert_to('{"type":"ERR_DIGEST","message":"another task has this id with other bytes","traceback":""}', 'UTF8'), 1,
    outlast_line('buried', 0, null, null)
  from due d where d.task_id in (select k.task_id from known k where k.is_other)
  on conflict (id) do nothing
  returning id
), came as (
  update outlast_task t set name = d.task_name, queue = d.queue, priority = d.priority, payload_version = d.payload_version,
    body = d.body, options = d.options, digest = d.digest
  from (select *, '\\x5b'::bytea || args || '\\x2c'::bytea || kwargs || '\\x2c'::bytea || embed || '\\x5d'::bytea as body from due) d
  where t.id = d.task_id and t.state = 'cancelled' and t.digest is null and outlast_follows(d.body, d.options)
), gone as (
  delete from outlast_outbox o using due d
  where o.id = d.id
    and (d.task_id in (select p.id from put p) or d.task_id in (select k.task_id from known k))
  returning o.id, o.task_id, o.task_name, o.queue, o.available_at, o.ordering_key
), note as (select pg_notify('outlast_task', '') from (select 1 from put limit 1) p)
select g.task_id as id, g.task_name as name, g.queue, (date_part('epoch', greatest(g.available_at, timestamptz 'epoch')) * 1000000)::bigint::text as available_us,
  g.ordering_key is not null as is_ordered,
  case when g.task_id in (select p.id from put p) then 'moved'
    when g.task_id in (select k.task_id from known k where k.is_other) then 'conflict' else 'copy' end as answer,
  (select count(*) from note)::text as notified, (select count(*) from buried)::text as buried, g.id as place
from gone g
union all
select d.task_id, d.task_name, d.queue, (date_part('epoch', greatest(d.available_at, timestamptz 'epoch')) * 1000000)::bigint::text, d.ordering_key is not null,
  'limited', '0', '0', d.id
from due d where d.is_limited and d.task_id not in (select k.task_id from known k)
order by place`,
  movedForget: `delete from outlast_moved`,
  openWorker: `with gone as (
  delete from outlast_objective where name = any($6::text[])
), said as (
  insert into outlast_objective as o (name, success, within_ms, latency)
  select * from unnest($7::text[], $8::numeric[], $9::bigint[], $10::numeric[]) as s(name, success, within_ms, latency) order by s.name
  on conflict (name) do update set success = excluded.success, within_ms = excluded.within_ms, latency = excluded.latency
    where (o.success, o.within_ms, o.latency) is distinct from (excluded.success, excluded.within_ms, excluded.latency)
)
insert into outlast_worker (id, process, host, pid, lease_ms, deadline)
values ($1, $2, $3, $4, $5::int, clock_timestamp() + $5::int * interval '1 millisecond')
on conflict (id) do nothing`,
  outboxFailing: `select name, sum(retries)::text as failures from (
  select task_name as name, retries from outlast_outbox where retries > 0
  union all
  select task_name, retries from outlast_dead_letter
) f group by name order by sum(retries) desc, name collate "C" limit $1`,
  outboxFind: `select id::text as row, task_id as id, task_name as name, queue, state, schema_version <= $1 as supported, retries, last_error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as available, ordering_key, options
from outlast_outbox where task_id = $2`,
  outboxLetter: `select task_id as id, task_name as name, queue, failure_reason as error, version,
  to_char(dead_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as expires,
  '\\x5b'::bytea || args || '\\x2c'::bytea || kwargs || '\\x2c'::bytea || embed || '\\x5d'::bytea as body,
  options, redacted_args, redacted_kwargs, error_history as history, ordering_key
from outlast_dead_letter where task_id = $1`,
  outboxLettersNewest: `select task_id as id, task_name as name, queue, failure_reason as error, version,
  to_char(dead_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created, ordering_key, options
from outlast_dead_letter
where ($1::text is null or (dead_at, task_id collate "C") < ($1::text::timestamptz, $2::text))
  and ($3::text is null or task_name like $3::text escape E'\\\\')
order by outlast_dead_letter.dead_at desc, task_id collate "C" desc limit $4`,
  outboxLettersOldest: `select task_id as id, task_name as name, queue, failure_reason as error, version,
  to_char(dead_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as dead_at,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created, ordering_key, options
from outlast_dead_letter
where ($1::text is null or (dead_at, task_id collate "C") > ($1::text::timestamptz, $2::text))
  and ($3::text is null or task_name like $3::text escape E'\\\\')
order by outlast_dead_letter.dead_at, task_id collate "C" limit $4`,
  outboxList: `select o.id::text as row, task_id as id, task_name as name, queue, state, schema_version <= $1 as supported, retries, last_error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as available, ordering_key, options
from outlast_outbox o where $2::text is null or o.id > $2::text::bigint order by o.id limit $3`,
  outboxNextDue: `with recursive first as (
  (select o.ordering_key, o.state, o.available_at, o.schema_version from outlast_outbox o
    where o.ordering_key is not null order by o.ordering_key, o.id limit 1)
  union all
  select n.* from first f cross join lateral (
    select o.ordering_key, o.state, o.available_at, o.schema_version from outlast_outbox o
    where o.ordering_key > f.ordering_key order by o.ordering_key, o.id limit 1) n
), looked as (select f.* from first f limit 1000),
next as (
  (select o.available_at from outlast_outbox o where o.state = 'pending' and o.ordering_key is null and o.schema_version <= $1
    and o.available_at >= coalesce(to_timestamp($2::float8 / 1000), '-infinity')
  order by o.available_at, o.id limit 1)
  union all
  select s.available_at from looked s where s.state = 'pending' and s.schema_version <= $1
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = s.ordering_key and d.parks_key)
)
select (extract(epoch from least(greatest(min(n.available_at), clock_timestamp()), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint::text as wait_ms
from next n having count(*) > 0`,
  outboxQueuesSampled: `select queue, round(count(*) * $2::bigint / sum(count(*)) over ())::bigint::text as rows
from outlast_outbox tablesample system ($1::float8) group by queue order by queue collate "C"`,
  outboxQueues: `select queue, count(*)::text as rows from outlast_outbox group by queue order by queue collate "C"`,
  outboxRecent: `select o.id::text as row, task_id as id, task_name as name, queue, state, schema_version <= $1 as supported, retries, last_error,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as available, ordering_key, options
from outlast_outbox o order by o.id desc limit $2`,
  outboxSample: `with pending as materialized (
  select count(*) as total, count(*) filter (where available_at <= statement_timestamp()) as due
  from outlast_outbox where state = 'pending' and ordering_key is null
  union all
  select count(*), count(*) filter (where available_at <= statement_timestamp())
  from outlast_outbox where state = 'pending' and ordering_key is not null
), again as materialized (
  select count(*) filter (where available_at > statement_timestamp() and retries > 0) as backoff,
    count(*) filter (where available_at > statement_timestamp() and retries = 0) as deferred,
    min(greatest(created_at, eta)) as since
  from outlast_outbox where state = 'pending' and (claims > 0 or deaths > 0)
), head as materialized (
  select queue, priority, count(*) as total, count(*) filter (where due <= statement_timestamp()) as ready, min(due) as first
  from outlast_task where state = 'waiting' and not suspect group by queue, priority
), suspect as materialized (
  select count(*) as total, count(*) filter (where due <= statement_timestamp()) as ready, min(due) as first
  from outlast_task where state = 'waiting' and suspect
), refused as materialized (
  select count(*) as total, count(*) filter (where due <= statement_timestamp()) as ready, min(due) as first
  from outlast_task where state = 'refused'
), task as (
  select sum(total) as total, sum(ready) as ready
  from (select total, ready from head union all select total, ready from suspect union all select total, ready from refused) t
), since as (
  select min(available_at) as at from outlast_outbox where state = 'pending' and ordering_key is null and available_at <= statement_timestamp()
  union all
  select min(available_at) from outlast_outbox where state = 'pending' and ordering_key is not null and available_at <= statement_timestamp()
  union all
  select since from again
  union all
  select min(greatest(created_at, eta)) from outlast_outbox where state = 'claimed'
  union all
  select (
    select min(case when t.epoch = 0 then greatest(t.created_at, t.eta) else t.due end) from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = h.queue and t.priority = h.priority and t.due = h.first)
  from head h where h.ready > 0
  union all
  select first from suspect
  union all
  select first from refused
)
select
  (select sum(total) from pending)::text as pending,
  (select sum(due) from pending)::text as due,
  (select backoff from again)::text as backoff,
  (select deferred from again)::text as deferred,
  (select count(*) from outlast_outbox where state = 'claimed')::text as claimed,
  (select count(*) from outlast_outbox where state = 'sent')::text as sent,
  (select count(*) from outlast_outbox where schema_version > 2 and schema_version > $1)::text as unsupported,
  (select count(*) from outlast_dead_letter)::text as dead,
  (select coalesce(ready, 0) from task)::text as tasks_due,
  (select coalesce(total - ready, 0) from task)::text as tasks_later,
  (select count(*) from outlast_task where failures + crashes > 0 and state in ('waiting', 'running', 'dead')
    and state = 'waiting' and due > statement_timestamp())::text as tasks_backoff,
  (extract(epoch from clock_timestamp() - (select greatest(min(at), timestamptz 'epoch') from since where at <= statement_timestamp() having min(at) is not null)) * 1000)::bigint::text as oldest_ms`,
  outboxView: `select o.id::text as row, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= $1 as supported, o.retries, o.last_error,
  to_char(o.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created,
  to_char(o.available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as available,
  to_char(o.eta at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as eta,
  o.ordering_key, o.options, o.redacted_args, o.redacted_kwargs, o.error_history as history, o.claims, o.claimed_by,
  '\\x5b'::bytea || o.args || '\\x2c'::bytea || o.kwargs || '\\x2c'::bytea || o.embed || '\\x5d'::bytea as body,
  o.state = 'claimed' and (o.claimed_until < clock_timestamp()
    or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= clock_timestamp())) as claim_over,
  (select f.task_id from outlast_outbox f where f.ordering_key = o.ordering_key and f.id < o.id order by f.id limit 1) as behind,
  (select d.task_id from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key limit 1) as parked,
  (select count(*) from outlast_relay where lease_until >= clock_timestamp())::text as relays,
  (extract(epoch from clock_timestamp()) * 1000)::bigint::text as now_ms
from outlast_outbox o where o.task_id = $2`,
  park: `with msg as (
  select * from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bytea[], $7::bytea[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[])
    with ordinality as m(id, name, queue, priority, version, body, options, digest, eta_ms, expires_ms, delay_ms, refuser, place)
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due, refused_at, refused_by, history)
  select id, name, queue, priority, version, body, options, digest, to_timestamp(eta_ms / 1000.0), to_timestamp(expires_ms / 1000.0),
    case when refuser is null then 'waiting' else 'refused' end, case when delay_ms is null then greatest(clock_timestamp(), to_timestamp(eta_ms / 1000.0))
      else clock_timestamp() + delay_ms * interval '1 millisecond' end,
    case when refuser is not null then clock_timestamp() end, refuser,
    outlast_line(case when refuser is null then 'arrived' else 'refused' end, 0, refuser, null)
  from msg order by place
  on conflict (id) do nothing
  returning id, digest
), known as materialized (
  select m.id, m.digest, coalesce(t.digest <> m.digest, false) as is_other,
    t.digest = m.digest and t.state = 'refused' and t.epoch = 0 as is_aside
  from msg m join outlast_task t on t.id = m.id
), buried as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending, ended_at, reason, error, version, history)
  select m.id || '#' || left(m.digest, 16), m.name, m.queue, m.priority, m.version, m.body, m.options, m.digest, 'dead', 'dead',
    clock_timestamp(), 'ERR_DIGEST', convert_to('{"type":"ERR_DIGEST","message":"another task has this id with other bytes","traceback":""}', 'UTF8'), 1,
    outlast_line('buried', 0, null, null)
  from msg m join known k on k.id = m.id and k.digest = m.digest and k.is_other
  on conflict (id) do nothing
), came as (
  update outlast_task t set name = m.name, queue = m.queue, priority = m.priority, payload_version = m.version, body = m.body,
    options = m.options, digest = m.digest
  from msg m
  where t.id = m.id and t.state = 'cancelled' and t.digest is null and outlast_follows(m.body, m.options)
), again as (
  update outlast_task t set options = m.options, refused_at = clock_timestamp(), refused_by = coalesce(m.refuser, t.refused_by)
  from msg m
  where t.id = m.id and t.digest = m.digest and t.state = 'refused' and t.epoch = 0
  returning t.id
), note as (select pg_notify('outlast_task', '') from (select 1 from put limit 1) p)
select id, digest, (select count(*) from note)::text as notified from put
union all
select id, digest, '0' from known where is_aside is not true or id in (select id from again)`,
  pruneChords: `with over as (
  select p.group_id from outlast_chord_part p
  where p.joined_at < statement_timestamp() - $2::bigint * interval '1 millisecond'
    and not exists (
      select 1 from outlast_chord_part o
      where o.group_id = p.group_id and (o.result is null or o.joined_at >= statement_timestamp() - $2::bigint * interval '1 millisecond'))
    and (select count(*) from outlast_chord_part o where o.group_id = p.group_id) = p.size
  order by p.joined_at limit $1
), closed as (
  delete from outlast_chord c using over where c.group_id = over.group_id
)
delete from outlast_chord_part p using over where p.group_id = over.group_id`,
  pruneEffects: `with over as materialized (
  select effect_key, step from outlast_effect where ends_at < clock_timestamp() order by ends_at limit $1 for update skip locked
), gone as (
  delete from outlast_effect e using over where e.effect_key = over.effect_key and e.step = over.step returning e.step
), keys as (
  delete from outlast_effect_key where key_hash in (
    select key_hash from outlast_effect_key where ends_at < clock_timestamp() order by ends_at limit $1 for update skip locked)
)
select count(*)::text as pruned from gone`,
  pruneNeverSent: `delete from outlast_never_sent where task_id in (
  select task_id from outlast_never_sent where keep_until < statement_timestamp() order by keep_until limit $1 for update skip locked)`,
  pruneSendKeys: `delete from outlast_send_key where key in (
  select k.key from outlast_send_key k
  where k.free_at < statement_timestamp() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
    and not exists (select 1 from outlast_task t where t.id = k.task_id and t.state in ('waiting', 'refused') and t.epoch = 0)
  order by k.free_at limit $1 for update skip locked)
returning key`,
  prune: `with over as materialized (
  select id from outlast_task where keep_until < statement_timestamp() order by keep_until limit $1 for update skip locked
), gone as (
  delete from outlast_task t using over where t.id = over.id returning t.id, t.queue, t.name, t.ending
), steps as (
  delete from outlast_step s using gone where s.task_id = gone.id
), also as (
  delete from outlast_effect e using gone where e.task_id = gone.id and e.ttl_ms is null
), keyed as (
  update outlast_effect e set ends_at = statement_timestamp() + e.ttl_ms * interval '1 millisecond'
  from gone where e.task_id = gone.id and e.ttl_ms is not null
), counted as (
  insert into outlast_counter as c (queue, name, ending, count)
  select queue, name, ending, count(*) from gone group by queue, name, ending order by queue, name, ending
  on conflict (queue, name, ending) do update set count = c.count + excluded.count
)
select count(*)::text as pruned from gone`,
  purgeDeadLetters: `with over as materialized (
  select task_id from outlast_dead_letter
  where ($1::bigint is null or dead_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
    and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
    and ($3::text is null or task_name like $3::text escape E'\\\\')
  order by dead_at, task_id limit $4 for update skip locked
), gone as (
  delete from outlast_dead_letter d using over where d.task_id = over.task_id returning d.task_name, d.parks_key
), note as (select pg_notify('outlast_outbox', '') from (select 1 from gone where parks_key limit 1) g)
select task_name as name, count(*)::text as count, (select count(*) from note)::text as notified
from gone group by task_name order by task_name collate "C"`,
  purgeDead: `with over as materialized (
  select id from outlast_task
  where state = 'dead'
    and ($1::bigint is null or ended_at < statement_timestamp() - $1::bigint * interval '1 millisecond')
    and ($2::bigint is null or created_at < statement_timestamp() - $2::bigint * interval '1 millisecond')
    and ($3::text is null or name like $3::text escape E'\\\\')
  order by ended_at, id limit $4 for update skip locked
), gone as (
  update outlast_task t set
    state = 'cancelled', body = '', options = '{}', error = null, checkpoint = null,
    keep_until = clock_timestamp() + $5::bigint * interval '1 millisecond', history = outlast_line('purged', t.epoch, null, null)
  from over where t.id = over.id and t.state = 'dead'
  returning t.id, t.name
), steps as (
  delete from outlast_step s using gone where s.task_id = gone.id
), also as (
  delete from outlast_effect e using gone where e.task_id = gone.id and e.ttl_ms is null
)
select name, count(*)::text as count from gone group by name order by name collate "C"`,
  putOffTask: `update outlast_task t set due = clock_timestamp() + interval '1 hour'
where t.id = $1 and t.state in ('waiting', 'refused')
returning t.id, t.name, t.queue`,
  raiseEpoch: `with t as materialized (
  select id, state, epoch, run from outlast_task where id = $1 for update
), raised as (
  update outlast_task o set epoch = $4::bigint + 1 from t
  where o.id = t.id and t.state = 'running' and t.epoch = $2 and t.run = $3 and t.epoch <= $4
  returning o.epoch
)
select case
    when t.id is null then 'absent'
    when t.state = 'running' and t.run = $3 and t.epoch in ($2, $4 + 1) then 'ok'
    else 'stale'
  end as status, coalesce((select epoch from raised), t.epoch)::text as epoch
from (select 1) one left join t on true`,
  readDigest: `select digest from outlast_outbox where task_id = $1::text
union all
select digest from outlast_task where id = $1::text
limit 1`,
  readResult: `select case t.state when 'refused' then 'waiting' else t.state end as state, t.ending, t.result, t.error, t.reason, null as of_id from outlast_task t where t.id = $1
union all
select 'dead', 'dead', null, convert_to('{"type":"relay","message":' || to_json(d.failure_reason)::text || ',"traceback":""}', 'UTF8'), 'relay', null
from outlast_dead_letter d where d.task_id = $1
union all
select 'pending', null, null, null, null, null from outlast_outbox o where o.task_id = $1
union all
select case n.ending when 'dead' then 'dead' when 'discarded' then 'done' else 'cancelled' end, n.ending, null, n.error, null, n.of_id
from outlast_never_sent n
where n.task_id = $1 and not exists (
  select 1 from outlast_task b where b.id = n.of_id and (b.ending is null or b.ending = 'done'))
limit 1`,
  readState: `select state from outlast_task where id = $1`,
  reap: `with lost as materialized (
  select t.id, t.owner, (select w.death from outlast_worker w where w.id = t.owner) as death from outlast_task t
  where t.state = 'running' and t.owner = any(array(select id from outlast_worker where state = 'closed'))
  order by t.id limit $1 for update skip locked
), moved as (
  update outlast_task t set
    state = case when t.crashes >= t.crash_budget then 'dead' else 'waiting' end,
    failures = least(t.failures, 1073741822), crashes = least(t.crashes, 1073741822) + 1, owner = null, settled_run = t.run, settled_as = 'reap',
    ending = case when t.crashes >= t.crash_budget then 'dead' end,
    ended_at = case when t.crashes >= t.crash_budget then clock_timestamp() end,
    reason = case when t.crashes >= t.crash_budget then 'ERR_RESURRECTIONS_SPENT' end,
    error = case when t.crashes >= t.crash_budget
      then convert_to(json_build_object('type', 'ERR_RESURRECTIONS_SPENT', 'message', 'its worker died ' || (t.crashes::bigint + 1)
        || ' times' || coalesce('; the last time: ' || (lost.death::json ->> 'message'), ''), 'traceback', '')::text, 'UTF8')
      else t.error end,
    version = case when t.crashes >= t.crash_budget then least(t.version, 2147483646) + 1 else t.version end,
    history = outlast_history(t.history, outlast_line(case when t.crashes >= t.crash_budget then 'dead' else 'reaped' end, t.epoch, t.owner, convert_to(lost.death, 'UTF8')))
  from lost
  where t.id = lost.id and t.state = 'running'
  returning t.id, t.name, t.queue, t.crashes, t.state, lost.owner, lost.death
), note as (select pg_notify('outlast_task', '') from (select 1 from moved limit 1) m
), gone as (
  delete from outlast_worker w
  where w.state = 'closed' and not exists (select 1 from outlast_task t where t.owner = w.id and t.state = 'running')
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, case m.state when 'dead' then 'dead' else 'resurrected' end,
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as store_ms, m.*, (select count(*) from note)::text as notified
from (select 1) one left join moved m on true`,
  receiptLater: `update outlast_outbox
set available_at = clock_timestamp() + $2::bigint * interval '1 millisecond', last_error = nullif(last_error, $3)
where id = any($1::bigint[]) and state = 'sent'
returning id`,
  receiptPark: `update outlast_outbox
set available_at = clock_timestamp() + $2::bigint * interval '1 millisecond', last_error = $3
where id = any($1::bigint[]) and state = 'sent'
returning id`,
  receiptReceived: `delete from outlast_outbox where id = any($1::bigint[]) and state = 'sent' returning id`,
  receiptSendAgain: `update outlast_outbox set state = 'pending', available_at = clock_timestamp(), updated_at = clock_timestamp()
where id = any($1::bigint[]) and claims = $2::int and state = 'sent'
returning id`,
  receiptTake: `with due as materialized (
  select o.id from outlast_outbox o where o.state = 'sent' and o.available_at <= statement_timestamp()
  order by o.available_at, o.id limit $1 for update skip locked
)
update outlast_outbox o set available_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
where o.id = any(array(select due.id from due))
returning o.id::text as row, o.task_id as id, o.claims,
  (extract(epoch from clock_timestamp() - o.updated_at) * 1000)::bigint::text as age_ms, o.ordering_key is not null as is_ordered,
  o.ordering_key is not null and o.parks_key as parks_key, coalesce(o.last_error = $3, false) as is_parked`,
  reclaim: `with over as (
  select o.id from outlast_outbox o
  where o.state = 'claimed' and (
    o.claimed_until < clock_timestamp()
    or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= clock_timestamp()))
  limit 1000 for update skip locked
)
update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp()
from over where o.id = over.id`,
  recordNeverSent: `insert into outlast_never_sent as n (task_id, of_id, ending, error, keep_until)
select i.id, $2::text, $3::text, $4::bytea, clock_timestamp() + $5::bigint * interval '1 millisecond'
from (select distinct id from json_array_elements_text($1::json) as e (id)) i
where not exists (select 1 from outlast_task t where t.id = i.id)
order by i.id
on conflict (task_id) do update
set of_id = excluded.of_id, ending = excluded.ending, error = excluded.error, keep_until = excluded.keep_until`,
  refusedBury: `with moved as (
  update outlast_task t set
    state = 'dead', epoch = t.epoch + 1, ending = 'dead', ended_at = clock_timestamp(), reason = 'ERR_TASK_UNKNOWN', error = $2, version = least(t.version, 2147483646) + 1,
    refused_at = null, refused_by = null, history = outlast_history(t.history, outlast_line('buried', t.epoch + 1, t.refused_by, $2))
  where id = $1 and state = 'refused'
  returning id, name, queue
), counted as (
  insert into outlast_tally (name, queue, figure, at, count)
  select m.name, m.queue, 'dead',
    case when o.name is null then '-infinity' else date_bin('1 minute', statement_timestamp(), 'epoch') end, count(*)
  from moved m
  left join outlast_objective o on o.name = m.name
  group by 1, 2, 3, 4
)
select case
    when exists (select 1 from moved) then 'ok'
    when exists (select 1 from outlast_task where id = $1) then 'stale'
    else 'absent'
  end as status`,
  refusedHandBack: `with gone as (
  delete from outlast_task where id = $1 and state = 'refused' and epoch = 0 and (extract(epoch from refused_at) * 1000000)::bigint::text = $2 returning id
)
select case
    when exists (select 1 from gone) then 'ok'
    when exists (select 1 from outlast_task where id = $1) then 'stale'
    else 'absent'
  end as status`,
  refusedList: `select id, name, queue, priority, payload_version, body, options, digest,
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
where number = 1 or bytes <= $2::float8 order by refused_at, id`,
  relayBeat: `insert into outlast_relay (id, lease_until) values ($1, clock_timestamp() + $2::bigint * interval '1 millisecond')
on conflict (id) do update set lease_until = excluded.lease_until`,
  relayLeave: `delete from outlast_relay where id = $1 or lease_until < clock_timestamp() - interval '1 day'`,
  releaseClaim: `update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = clock_timestamp()
where claim_token = $1 and state = 'claimed' returning id::text as row`,
  release: `/* kept plan */
with item as (
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[])
    with ordinality as i(id, epoch, run, delay_ms, place)
), moved as (
  update outlast_task t set
    state = 'waiting', owner = null, settled_run = i.run, settled_as = 'release',
    due = case when i.delay_ms is null then t.due else clock_timestamp() + i.delay_ms * interval '1 millisecond' end,
    history = outlast_history(t.history, outlast_line('released', t.epoch, t.owner, null))
  from item i
  where t.id = any($1::text[]) and t.id = i.id and t.epoch = i.epoch and case t.state when 'running' then t.run end = i.run
  returning t.id, t.run
), note as (select pg_notify('outlast_task', '') from (select 1 from moved limit 1) m)
select case
    when m.id is not null then 'ok'
    when t.id is null then 'absent'
    when t.settled_run = i.run and t.settled_as = 'release' then 'ok'
    else 'stale'
  end as status, (select count(*) from note)::text as notified
from item i left join moved m on m.id = i.id and m.run = i.run left join outlast_task t on t.id = any($1::text[]) and t.id = i.id
order by i.place`,
  renewClaim: `update outlast_outbox set claimed_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
where claim_token = $1 and state = 'claimed' returning id::text as row`,
  renew: `with beat as (
  update outlast_worker set deadline = clock_timestamp() + lease_ms * interval '1 millisecond'
  where id = $1 and state = 'open' returning id
)
select t.id, t.epoch::text as epoch, t.run
from beat left join outlast_task t on $2::boolean and t.owner = beat.id and t.state = 'running'`,
  reviveDeadLetter: `with letter as materialized (
  select * from outlast_dead_letter
  where task_id = $1 and version = $2 and (expires_at is null or expires_at > clock_timestamp()) for update
), back as (
  insert into outlast_outbox (id, task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, available_at, eta, expires_at, idempotency_key, deaths, error_history, created_at,
    ordering_key, parks_key, redacted_args, redacted_kwargs)
  overriding system value
  select case when parks_key then row_id else nextval(pg_get_serial_sequence('outlast_outbox', 'id')) end,
    task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, clock_timestamp(), eta, expires_at, idempotency_key, version,
    outlast_history(error_history, outlast_line('revived', 0, null, null)), created_at,
    ordering_key, parks_key, redacted_args, redacted_kwargs
  from letter
  on conflict (task_id) do nothing
  returning task_id
), gone as (
  delete from outlast_dead_letter d using back where d.task_id = back.task_id returning d.task_id
), note as (select pg_notify('outlast_outbox', '') from back)
select case
    when exists (select 1 from gone) and exists (select 1 from note) then 'ok'
    when exists (select 1 from outlast_dead_letter where task_id = $1 and version = $2 and expires_at <= clock_timestamp()) then 'expired'
    when exists (select 1 from outlast_dead_letter where task_id = $1) then 'conflict'
    else 'absent'
  end as status`,
  revive: `with unsent as (
  delete from outlast_task
  where id = $1 and state = 'dead' and version = $2 and (expires_at is null or expires_at > clock_timestamp())
    and reason in ('ERR_FOLLOW_UP_UNSENT', 'ERR_DESTINATION_REFUSED')
  returning *
), again as (
  insert into outlast_after (key, entry, due)
  select id || '/revived:' || version, convert_to(json_build_object(
      'id', id, 'name', name, 'queue', queue, 'priority', priority, 'version', payload_version, 'digest', digest,
      'etaMs', floor(extract(epoch from eta) * 1000), 'expiresMs', floor(extract(epoch from expires_at) * 1000),
      'body', translate(encode(body, 'base64'), E'\\n', ''),
      'options', translate(encode(options, 'base64'), E'\\n', '')
    )::text, 'UTF8'), clock_timestamp() - interval '1 hour'
  from unsent
  on conflict (key) do nothing
), moved as (
  update outlast_task set
    state = 'waiting', due = clock_timestamp(), failures = 0, crashes = 0, ending = null, ended_at = null, reason = null, error = null,
    version = version + 1, history = outlast_history(history, outlast_line('revived', epoch, null, null))
  where id = $1 and state = 'dead' and version = $2 and (expires_at is null or expires_at > clock_timestamp())
    and reason not in ('ERR_FOLLOW_UP_UNSENT', 'ERR_DESTINATION_REFUSED')
  returning id
), note as (select pg_notify('outlast_task', '') from moved)
select case
    when exists (select 1 from note) or exists (select 1 from unsent) then 'ok'
    when exists (select 1 from outlast_task where id = $1 and state = 'dead' and version = $2) then 'expired'
    when exists (select 1 from outlast_task where id = $1) then 'conflict'
    else 'absent'
  end as status`,
  scheduleDeclare: `update outlast_schedule s set declared_until_ms = (select (extract(epoch from clock_timestamp()) * 1000)::bigint) + $3
from unnest($1::text[], $2::text[]) as own (name, digest)
where s.name = own.name and s.digest = own.digest and s.origin = 'config'
  and s.declared_until_ms < (select (extract(epoch from clock_timestamp()) * 1000)::bigint) + $3 - $4`,
  scheduleDeclared: `select s.name from outlast_schedule s
join unnest($1::text[], $2::text[]) as own (name, digest) on s.name = own.name and s.digest = own.digest
where s.origin = 'config'`,
  scheduleDelete: `delete from outlast_schedule where name = $1`,
  scheduleDue: `select name, version, origin, paused, definition, digest, seal, next_slot_ms::text, due_ms::text, last_slot_ms::text, last_task, fired::text,
  missed::text, error, declared_until_ms::text, disputed_until_ms::text
from outlast_schedule
where not paused and due_ms <= (select (extract(epoch from clock_timestamp()) * 1000)::bigint)
  and (declared_until_ms is null or declared_until_ms > (select (extract(epoch from clock_timestamp()) * 1000)::bigint))
order by due_ms, name
limit $1`,
  scheduleInsert: `insert into outlast_schedule (name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms,
  last_task, fired, missed, error, declared_until_ms, disputed_until_ms)
select $1, $2, $3, $4, $5, $6, $7, $8::bigint, $9::bigint, $10::bigint, $11, $12::bigint, $13::bigint, $14, $15::bigint, $16::bigint
where (select count(*) from outlast_schedule) < $17
on conflict (name) do nothing
returning 1 as written`,
  scheduleList: `select name, version, origin, paused, definition, digest, seal, next_slot_ms::text, due_ms::text, last_slot_ms::text, last_task, fired::text,
  missed::text, error, declared_until_ms::text, disputed_until_ms::text
from outlast_schedule where name > $1 order by name limit $2`,
  scheduleLock: `select 1 as locked from outlast_schedule where name = $1 and version = $2 for update skip locked`,
  scheduleNext: `select (select (extract(epoch from clock_timestamp()) * 1000)::bigint)::text as now_ms,
  (select min(due_ms) from outlast_schedule
   where not paused and (declared_until_ms is null or declared_until_ms > (select (extract(epoch from clock_timestamp()) * 1000)::bigint)))::text as due_ms`,
  schedulePrune: `delete from outlast_schedule where origin = 'config' and declared_until_ms < (select (extract(epoch from clock_timestamp()) * 1000)::bigint) - $1`,
  scheduleRead: `select name, version, origin, paused, definition, digest, seal, next_slot_ms::text, due_ms::text, last_slot_ms::text, last_task, fired::text,
  missed::text, error, declared_until_ms::text, disputed_until_ms::text
from outlast_schedule where name = $1`,
  scheduleUpdate: `update outlast_schedule set version = $2, origin = $3, paused = $4, definition = $5, digest = $6, seal = $7, next_slot_ms = $8,
  due_ms = $9, last_slot_ms = $10, last_task = $11, fired = $12, missed = $13, error = $14, declared_until_ms = greatest(declared_until_ms, $15),
  disputed_until_ms = $16
where name = $1`,
  sendMany: `with tier as materialized (
  select exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database') as is_relayed
), item as (
  select r.*, row_number() over () as place
  from jsonb_to_recordset($1::text::jsonb) as r(
    task_id text, task_name text, queue text, priority text, body text, args text, kwargs text, embed text, options text,
    digest text, schema_version text, payload_version text, eta_ms text, expires_ms text, ordering_key text,
    parks_key text, redacted_args text, redacted_kwargs text, idempotency_key text, fingerprint text, key_window_ms text,
    chosen text)
  where ($3::text is null or current_setting('outlast.transaction', true) = $3::text) and not (select is_relayed from tier)
), wanted as (
  select distinct on (idempotency_key collate "C") * from item where idempotency_key is not null
  order by idempotency_key collate "C", place
), held as (
  insert into outlast_send_key as k (key, task_id, fingerprint, free_at)
  select idempotency_key, task_id, fingerprint, now() + key_window_ms::bigint * interval '1 millisecond'
  from wanted
  on conflict (key) do update set (task_id, fingerprint, free_at) = (
    select case when f.is_free then excluded.task_id else k.task_id end, case when f.is_free then excluded.fingerprint else k.fingerprint end,
      case when f.is_free then excluded.free_at else k.free_at end
    from (select k.free_at <= now() and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
      and not exists (select 1 from outlast_task t where t.id = k.task_id and t.state in ('waiting', 'refused') and t.epoch = 0) as is_free) f)
  returning k.key, k.task_id, k.fingerprint, k.free_at
), fresh as materialized (
  select i.*, decode(i.body, 'base64') as bytes from item i
  where (i.idempotency_key is null or exists (select 1 from held h where h.key = i.idempotency_key and h.task_id = i.task_id
      and h.free_at = now() + i.key_window_ms::bigint * interval '1 millisecond'))
    and (i.body is null or i.chosen is null or (select o.task_id from outlast_outbox o where o.task_id = i.task_id) is null)
), put as (
  insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, eta, expires_at, state, due)
  select f.task_id, f.task_name, f.queue, f.priority::smallint, f.payload_version::smallint, f.bytes, decode(f.options, 'base64'),
    f.digest, to_timestamp(f.eta_ms::double precision / 1000), to_timestamp(f.expires_ms::double precision / 1000), 'waiting',
    greatest(clock_timestamp(), to_timestamp(f.eta_ms::double precision / 1000))
  from fresh f where f.body is not null
  order by f.place
  on conflict (id) do nothing
  returning id
), came as (
  update outlast_task t set name = f.task_name, queue = f.queue, priority = f.priority::smallint,
    payload_version = f.payload_version::smallint, body = f.bytes, options = decode(f.options, 'base64'), digest = f.digest
  from fresh f
  where t.id = any(array(select c.task_id from fresh c where c.chosen is not null and c.body is not null)) and f.task_id = t.id
    and t.state = 'cancelled' and t.digest is null and outlast_follows(f.bytes, decode(f.options, 'base64'))
), kept as (
  insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
    schema_version, payload_version, available_at, eta, expires_at, ordering_key, parks_key, redacted_args,
    redacted_kwargs, idempotency_key)
  select f.task_id, f.task_name, f.queue, f.priority::smallint, decode(f.args, 'base64'), decode(f.kwargs, 'base64'),
    decode(f.embed, 'base64'), decode(f.options, 'base64'), f.digest, f.schema_version::smallint,
    f.payload_version::smallint, coalesce(to_timestamp(f.eta_ms::double precision / 1000), now()),
    to_timestamp(f.eta_ms::double precision / 1000), to_timestamp(f.expires_ms::double precision / 1000),
    f.ordering_key, f.parks_key::boolean, decode(f.redacted_args, 'base64'), decode(f.redacted_kwargs, 'base64'),
    f.idempotency_key
  from fresh f where f.body is null
  order by f.place
  on conflict (task_id) do nothing
  returning task_id
), note as (
  select pg_notify('outlast_task', '') from (select 1 from put limit 1) w where $2::text is not null
  union all
  select pg_notify('outlast_outbox', '') from (select 1 from kept limit 1) w where $2::text is not null
)
select i.place::text as place, h.task_id as held_by, h.fingerprint as held_fingerprint,
  coalesce((select o.digest from outlast_outbox o where o.task_id = i.task_id),
    (select t.digest from outlast_task t where t.id = i.task_id and i.body is not null)) as earlier_digest
from item i
left join held h on h.key = i.idempotency_key
where i.task_id not in (select p.id from put p) and i.task_id not in (select k.task_id from kept k) and (select count(*) from note) >= 0
union all
select '0', null, null, null
where $3::text is not null and current_setting('outlast.transaction', true) is distinct from $3::text
union all
select 'relayed', set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true), null, null
where ($3::text is null or current_setting('outlast.transaction', true) = $3::text) and (select is_relayed from tier)`,
  sendTaskNotify: `with put as (
  insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state)
  select $1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text, $8::text::smallint,
    'waiting'
  where not exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database')
  returning id
)
select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true) as mark
where not exists (select 1 from put)
union all
select null from put where pg_notify('outlast_task', '')::text is null`,
  sendTask: `with put as (
  insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state)
  select $1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text, $8::text::smallint,
    'waiting'
  where not exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database')
  returning id
)
select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true) as mark
where not exists (select 1 from put)`,
  sendTimedTask: `with put as (
  insert into outlast_task (id, name, queue, priority, body, options, digest, payload_version, state, due, eta, expires_at)
  select $1::text, $2::text, $3::text, $4::text::smallint, $5::text::bytea, $6::text::bytea, $7::text, $8::text::smallint,
    'waiting', greatest(clock_timestamp(), to_timestamp($9::text::double precision / 1000)),
    to_timestamp($9::text::double precision / 1000), to_timestamp($10::text::double precision / 1000)
  where not exists (select 1 from outlast_tier t where t.role = 'broker' and t.store <> 'database')
  returning id
)
select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), pg_current_xact_id()::text), true) as mark
where not exists (select 1 from put)
union all
select null from put where $11::text is not null and pg_notify('outlast_task', '')::text is null`,
  setAside: `with able as materialized (
  select name, version from unnest($3::text[], $4::int[]) as n(name, version)
), found as materialized (
  select t.id
  from unnest($2::text[]) as q(name)
  cross join generate_series(9, 0, -1) as p(priority)
  cross join lateral (
    select t.id, t.name, t.payload_version from outlast_task t
    where t.state = 'waiting' and not t.suspect and t.queue = q.name and t.priority = p.priority and t.due <= statement_timestamp()
    order by t.due, t.seq limit $5
  ) t
  where not exists (select 1 from able a where a.name = t.name and a.version >= t.payload_version)
  limit $5
), locked as (
  select t.id from outlast_task t join found f on f.id = t.id where t.state = 'waiting' for update of t skip locked
), moved as (
  update outlast_task t set state = 'refused', refused_at = clock_timestamp(), refused_by = $1,
    history = outlast_history(t.history, outlast_line('refused', t.epoch, $1, null))
  from locked l where t.id = l.id
  returning t.id
)
select count(*)::text as moved, pg_notify('outlast_task', '') from moved`,
  settleDead: `with item as (select * from unnest($2::bigint[], $3::text[], $4::bytea[]) as i(id, error, record)),
gone as (
  delete from outlast_outbox o using item i
  where o.id = i.id and o.claim_token = $1 and o.state = 'claimed'
  returning o.*, i.error, i.record
)
insert into outlast_dead_letter as d (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, eta, expires_at, idempotency_key, retries, failure_reason, error_history, created_at,
  row_id, ordering_key, parks_key, redacted_args, redacted_kwargs)
select case when exists (select 1 from outlast_dead_letter l where l.task_id = g.task_id and l.digest <> g.digest)
    then g.task_id || '#' || left(g.digest, 16) else g.task_id end,
  least(deaths, 2147483646) + 1, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, eta, expires_at, idempotency_key, least(retries, 32766) + 1, error, outlast_history(error_history, outlast_line('dead', 0, null, record)), created_at,
  id, ordering_key, parks_key, redacted_args, redacted_kwargs
from gone g
on conflict (task_id) do update set version = d.version + 1, failure_reason = excluded.failure_reason,
  error_history = outlast_history(d.error_history, excluded.error_history), dead_at = clock_timestamp(), row_id = excluded.row_id
returning task_id as row`,
  settleFailed: `with item as (select * from unnest($2::bigint[], $3::text[], $4::bigint[], $5::bytea[]) as i(id, error, delay_ms, record))
update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, retries = least(o.retries, 32766) + 1,
  last_error = i.error, error_history = outlast_history(o.error_history, outlast_line('failed', 0, null, i.record)),
  available_at = clock_timestamp() + i.delay_ms * interval '1 millisecond', updated_at = clock_timestamp()
from item i where o.id = i.id and o.claim_token = $1 and o.state = 'claimed'
returning o.id::text as row`,
  settleGeneration: `insert into outlast_generation as g (node, shown, generation) values ($1, $2, $3::bigint)
on conflict (node) do update set
  generation = greatest(g.generation + case when g.shown = excluded.shown then 0 else 1 end, excluded.generation),
  shown = excluded.shown,
  changed_at = clock_timestamp()
returning generation::text as generation`,
  settleOwnGeneration: `insert into outlast_generation as g (node, shown, generation)
values ('this database', (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text,
  extract(epoch from clock_timestamp())::bigint)
on conflict (node) do update set
  generation = greatest(g.generation + 1, excluded.generation), shown = excluded.shown, changed_at = clock_timestamp()
where g.shown <> excluded.shown`,
  settlePublished: `with quick as materialized (
  select current_setting('synchronous_commit') as usual, set_config('synchronous_commit', 'off', true) as setting
), gone as (
  delete from outlast_outbox
  where id = any($2::bigint[]) and claim_token = $1 and state = 'claimed' and (select quick.setting from quick) = 'off'
  returning case when ordering_key is null then false
    else set_config('synchronous_commit', (select quick.usual from quick), true) is not null end as is_ordered
)
select count(*)::int as settled, coalesce(bool_or(is_ordered), false) as is_ordered from gone`,
  stepFind: `select encode(coalesce(
  (select s.value from outlast_step s where s.task_id = $1::text and s.step = $2::text),
  (select e.value from outlast_effect e where e.effect_key = $1::text and e.step = $2::text)), 'base64') as value`,
  stepKeep: `with also as (
  update outlast_effect set value = decode($3::text, 'base64') where effect_key = $1::text and step = $2::text
)
update outlast_step set value = decode($3::text, 'base64') where task_id = $1::text and step = $2::text`,
  stepMark: `with mine as (
  insert into outlast_step (task_id, step, epoch) values ($1::text, $2::text, $3::text::bigint)
  on conflict (task_id, step) do nothing returning step
), also as (
  insert into outlast_effect (effect_key, step, task_id, epoch)
  select $1::text, $2::text, $1::text, $3::text::bigint from mine
  on conflict (effect_key, step) do nothing returning step
)
select count(*)::text as is_new from also`,
  tallyAge: `with aged as materialized (
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
on conflict (name, queue, figure, at) do update set count = s.count + excluded.count`,
  tallyFold: `with over as materialized (
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
select count(*)::text as folded from gone`,
  tallyObjectives: `select (extract(epoch from statement_timestamp()) * 1000)::bigint::text as store_ms,
  o.name, o.success::text as success, o.within_ms::text as within_ms, o.latency::text as latency, c.figure, (extract(epoch from c.at) * 1000)::bigint::text as at_ms, c.count::text as count
from (select 1) one
left join outlast_objective o on true
left join lateral (
  select figure, at, sum(count) as count
  from (
    select figure, at, count from outlast_tally t where t.name = o.name and t.at > '-infinity'
    union all select figure, at, count from outlast_tally_sum s where s.name = o.name and s.at > '-infinity'
  ) c
  where figure = any($1::text[])
  group by figure, at
) c on true
order by o.name`,
  tallyTotals: `select name, queue, figure, sum(count)::text as count
from (select name, queue, figure, count from outlast_tally union all select name, queue, figure, count from outlast_tally_sum) c
group by name, queue, figure`,
  tierForget: `delete from outlast_tier where role = $1 and store = $2`,
  tierLeft: `select (select count(*) from outlast_task where state in ('waiting', 'refused', 'running'))::text as tasks,
  (select count(*) from outlast_task where state = 'dead')::text as dead,
  (select count(*) from outlast_after)::text as follow_ups,
  (select count(*) from outlast_chord)::text as chords`,
  tierList: `select role, store, last_at from outlast_tier order by last_at, role collate "C", store collate "C"`,
  tierNote: `insert into outlast_tier as t (role, store) select * from unnest($1::text[], $2::text[])
on conflict (role, store) do update set last_at = clock_timestamp()`,
  transactionCheck: `select case when current_setting('outlast.transaction', true) = $1::text then 'yes' else 'no' end as is_open`,
  transactionMark: `select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), $1::text), true) as marked`,
  unclaim: `update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, claims = greatest(0, o.claims - 1)
where o.id = any($2::bigint[]) and o.claim_token = $1 and o.state = 'claimed'`,
  wake: `with sleeping as (
  select id from outlast_task
  where id = any($1::text[]) and state in ('waiting', 'refused') and due > least(clock_timestamp(), greatest(created_at, eta))
  order by id for update
), woken as (
  update outlast_task t set due = least(clock_timestamp(), greatest(t.created_at, t.eta)) from sleeping s where t.id = s.id
  returning t.queue, t.priority, t.due
), note as (select pg_notify('outlast_task', '') from (select 1 from woken limit 1) w)
select w.queue, w.priority, (extract(epoch from w.due) * 1000)::bigint::text as due_ms, (select count(*) from note)::text as notified
from woken w`,
  withdrawLook: `select o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  '\\x5b'::bytea || o.args || '\\x2c'::bytea || o.kwargs || '\\x2c'::bytea || o.embed || '\\x5d'::bytea as body,
  o.options, o.digest, case when isfinite(o.eta) then (extract(epoch from o.eta) * 1000)::bigint::text end as eta_ms,
  case when isfinite(o.expires_at) then (extract(epoch from o.expires_at) * 1000)::bigint::text end as expires_ms
from outlast_outbox o where o.task_id = $1 and o.state = 'pending'`,
  withdrawRow: `delete from outlast_outbox where task_id = $1 and state = 'pending' returning id::text as row`,
};

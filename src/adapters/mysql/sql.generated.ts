// Written by scripts/embed-assets.mjs from the .sql files; edit those and run npm run build.
type Entry = { readonly text: string; readonly order: readonly number[] };

export const SQL: {
  readonly checkpointList: Entry;
  readonly checkpointRead: Entry;
  readonly checkpointRemove: Entry;
  readonly checkpointWrite: Entry;
  readonly claimHeads: Entry;
  readonly claimKeyed: Entry;
  readonly claimMark: Entry;
  readonly claimRows: Entry;
  readonly claim: Entry;
  readonly claimedRows: Entry;
  readonly countDeadLetters: Entry;
  readonly databaseMark: Entry;
  readonly deferClaim: Entry;
  readonly deleteDeadLetters: Entry;
  readonly doctorOutbox: Entry;
  readonly doctorServer: Entry;
  readonly doctorTransactions: Entry;
  readonly doorLimitIdle: Entry;
  readonly doorLimitWait: Entry;
  readonly doorLimits: Entry;
  readonly effectFind: Entry;
  readonly effectKeep: Entry;
  readonly effectKeyForget: Entry;
  readonly effectKeyRead: Entry;
  readonly effectKeyTake: Entry;
  readonly effectMark: Entry;
  readonly effectMarked: Entry;
  readonly effectsEnd: Entry;
  readonly effectsForget: Entry;
  readonly enqueue: Entry;
  readonly fenceRead: Entry;
  readonly fenceTake: Entry;
  readonly fencesDue: Entry;
  readonly fencesForget: Entry;
  readonly fencesLater: Entry;
  readonly fencesLock: Entry;
  readonly fencesOver: Entry;
  readonly lockDeadLetter: Entry;
  readonly lockOrderingKeys: Entry;
  readonly markSent: Entry;
  readonly openTransactions: Entry;
  readonly outboxFailing: Entry;
  readonly outboxFind: Entry;
  readonly outboxLetterCount: Entry;
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
  readonly packetLimit: Entry;
  readonly proofRemove: Entry;
  readonly proofWrite: Entry;
  readonly pruneEffectKeys: Entry;
  readonly pruneEffects: Entry;
  readonly pruneSendKeysGone: Entry;
  readonly pruneSendKeys: Entry;
  readonly purgeDeadLetters: Entry;
  readonly readDigests: Entry;
  readonly readGeneration: Entry;
  readonly readResult: Entry;
  readonly readSendKeys: Entry;
  readonly receiptLater: Entry;
  readonly receiptLease: Entry;
  readonly receiptPark: Entry;
  readonly receiptReceived: Entry;
  readonly receiptSendAgain: Entry;
  readonly receiptTake: Entry;
  readonly reclaimLock: Entry;
  readonly reclaimMark: Entry;
  readonly reclaim: Entry;
  readonly relayBeat: Entry;
  readonly relayLeave: Entry;
  readonly releaseClaim: Entry;
  readonly renewClaim: Entry;
  readonly reviveDeadLetter: Entry;
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
  readonly serverVersion: Entry;
  readonly setIsolation: Entry;
  readonly setSession: Entry;
  readonly setUnlimited: Entry;
  readonly settleDeadLock: Entry;
  readonly settleDeadRow: Entry;
  readonly settleDead: Entry;
  readonly settleFailed: Entry;
  readonly settleGeneration: Entry;
  readonly settlePublished: Entry;
  readonly takeOverSendKeyProven: Entry;
  readonly takeOverSendKey: Entry;
  readonly takeSendKey: Entry;
  readonly tierForget: Entry;
  readonly tierList: Entry;
  readonly tierNote: Entry;
  readonly transactionCheck: Entry;
  readonly transactionMark: Entry;
  readonly transactionOpen: Entry;
  readonly withdrawLook: Entry;
  readonly withdrawRow: Entry;
} = {
  checkpointList: {
    text: `select task_id, cast(epoch as char) as epoch, cast(seq as char) as seq from outlast_checkpoint
where part = 0 and created_at < utc_timestamp(6) - interval ? * 1000 microsecond
  and task_id >= ? and (task_id, epoch, seq) > (?, ?, ?)
order by task_id, epoch, seq limit ?`,
    order: [0, 1, 1, 2, 3, 4],
  },
  checkpointRead: {
    text: `select data from outlast_checkpoint where task_id = ? and epoch = ? and seq = ? and part = ?`,
    order: [0, 1, 2, 3],
  },
  checkpointRemove: {
    text: `delete from outlast_checkpoint where task_id = ? and epoch = ? and seq = ?`,
    order: [0, 1, 2],
  },
  checkpointWrite: {
    text: `insert into outlast_checkpoint (task_id, epoch, seq, part, data, created_at) values (?, ?, ?, ?, ?, utc_timestamp(6))
on duplicate key update data = values(data), created_at = values(created_at)`,
    order: [0, 1, 2, 3, 4],
  },
  claimHeads: {
    text: `select min(id) as row_id, ordering_key as ordering_key from outlast_outbox force index (outlast_outbox_ordered)
where ordering_key > ? group by ordering_key order by ordering_key limit ?`,
    order: [0, 1],
  },
  claimKeyed: {
    text: `select o.id as row_id, length(o.args) + length(o.kwargs) + length(o.embed) as bytes, o.ordering_key
from outlast_outbox o force index (primary)
where o.id in (?) and o.state = 'pending' and o.available_at <= utc_timestamp(6) and o.schema_version <= ?
  and not exists (select 1 from outlast_outbox e where e.ordering_key = o.ordering_key and e.id < o.id)
  and not exists (select 1 from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key)
order by o.ordering_key limit ? for update skip locked`,
    order: [1, 2, 0],
  },
  claimMark: {
    text: `update outlast_outbox
set state = 'claimed', claim_token = ?, claimed_by = ?, claims = claims + 1,
  claimed_until = utc_timestamp(6) + interval ? * 1000 microsecond, updated_at = utc_timestamp(6)
where id in (?)`,
    order: [1, 0, 2, 3],
  },
  claimRows: {
    text: `select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  concat('[', o.args, ',', o.kwargs, ',', o.embed, ']') as body, o.options, o.digest,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.eta) div 1000 as eta_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.expires_at) div 1000 as expires_ms, o.retries, o.claims,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms,
  timestampdiff(microsecond, greatest(o.created_at, coalesce(o.eta, o.created_at)), utc_timestamp(6)) / 1000 as due_ms,
  o.ordering_key is not null as is_keyed
from outlast_outbox o where o.id in (?)`,
    order: [0],
  },
  claim: {
    text: `select o.id as row_id, length(o.args) + length(o.kwargs) + length(o.embed) as bytes
from outlast_outbox o force index (outlast_outbox_plain)
where o.ordering_key is null and o.state = 'pending' and o.available_at <= utc_timestamp(6) and o.schema_version <= ?
  and o.available_at >= coalesce(timestamp '1970-01-01 00:00:00' + interval ? * 1000 microsecond, timestamp '0001-01-01 00:00:00')
order by o.available_at, o.id limit ? for update skip locked`,
    order: [1, 2, 0],
  },
  claimedRows: {
    text: `select id as row_id from outlast_outbox where claim_token = ? order by id`,
    order: [0],
  },
  countDeadLetters: {
    text: `select task_name as name, count(*) as count from outlast_dead_letter
where (? is null or dead_at < utc_timestamp(6) - interval ? * 1000 microsecond)
  and (? is null or created_at < utc_timestamp(6) - interval ? * 1000 microsecond)
  and (? is null or task_name like ?)
group by task_name order by task_name`,
    order: [0, 0, 1, 1, 2, 2],
  },
  databaseMark: {
    text: `select concat(database(), ' on ', @@hostname, ':', @@port) as name, database() as base, cast(m.applied_at as char) as applied
from outlast_migration m order by m.version limit 1000`,
    order: [],
  },
  deferClaim: {
    text: `update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6),
  available_at = utc_timestamp(6) + interval elt(field(id, ?), ?) * 1000 microsecond
where id in (?) and claim_token = ? and state = 'claimed'`,
    order: [1, 2, 1, 0],
  },
  deleteDeadLetters: {
    text: `delete from outlast_dead_letter where task_id in (?)`,
    order: [0],
  },
  doctorOutbox: {
    text: `select
  (select coalesce(sum(schema_version > ?), 0) from outlast_outbox force index (outlast_outbox_due)) as unsupported,
  (select count(*) from outlast_outbox o force index (outlast_outbox_claimed) left join outlast_relay r on r.id = o.claimed_by
    where o.claim_token > '' and (
      o.claimed_until < utc_timestamp(6) - interval ? * 1000 microsecond
      or (o.updated_at < utc_timestamp(6) - interval ? * 1000 microsecond
        and (r.lease_until is null or r.lease_until < utc_timestamp(6) - interval ? * 1000 microsecond)))) as orphans,
  (select count(*) from outlast_relay where lease_until >= utc_timestamp(6)) as relays,
  (select count(*) from outlast_dead_letter) as dead,
  (select count(distinct ordering_key) from outlast_dead_letter where parks_key and ordering_key is not null) as parked`,
    order: [0, 1, 1, 1],
  },
  doctorServer: {
    text: `select version() as version, timestampdiff(microsecond, '1970-01-01 00:00:00', utc_timestamp(6)) div 1000 as now_ms`,
    order: [],
  },
  doctorTransactions: {
    text: `select trx_mysql_thread_id as id, timestampdiff(microsecond, trx_started, now(6)) div 1000 as age_ms
from information_schema.innodb_trx where trx_started < now(6) - interval ? * 1000 microsecond order by trx_started`,
    order: [0],
  },
  doorLimitIdle: {
    text: `set session wait_timeout = cast(? as unsigned), session autocommit = cast(? as unsigned)`,
    order: [0, 1],
  },
  doorLimitWait: {
    text: `set session innodb_lock_wait_timeout = cast(? as unsigned)`,
    order: [0],
  },
  doorLimits: {
    text: `select cast(@@session.innodb_lock_wait_timeout as char) as lock_wait, cast(@@session.wait_timeout as char) as idle,
  if(@@session.autocommit, '1', '0') as autocommit`,
    order: [],
  },
  effectFind: {
    text: `select to_base64(value) as value from outlast_effect where effect_key = ? and step = ? lock in share mode`,
    order: [0, 1],
  },
  effectKeep: {
    text: `update outlast_effect set value = from_base64(?) where effect_key = ? and step = ?`,
    order: [2, 0, 1],
  },
  effectKeyForget: {
    text: `delete from outlast_effect_key where key_hash = ?`,
    order: [0],
  },
  effectKeyRead: {
    text: `select origin from outlast_effect_key where key_hash = ? for update`,
    order: [0],
  },
  effectKeyTake: {
    text: `insert into outlast_effect_key (key_hash, origin, ends_at)
values (?, ?, utc_timestamp(6) + interval cast(? as signed) * 1000 microsecond)
on duplicate key update
  origin = if(ends_at <= utc_timestamp(6), values(origin), origin), ends_at = values(ends_at)`,
    order: [0, 1, 2],
  },
  effectMark: {
    text: `insert into outlast_effect (effect_key, step, task_id, epoch, ttl_ms, created_at)
values (?, ?, ?, cast(? as signed), cast(? as signed), utc_timestamp(6))`,
    order: [0, 1, 2, 3, 4],
  },
  effectMarked: {
    text: `select '1' as marked from outlast_effect where effect_key = ? and step = ? and epoch = cast(? as signed)`,
    order: [0, 1, 2],
  },
  effectsEnd: {
    text: `update outlast_effect set ends_at = utc_timestamp(6) + interval ttl_ms * 1000 microsecond
where task_id in (?) and ttl_ms is not null`,
    order: [0],
  },
  effectsForget: {
    text: `delete from outlast_effect where task_id in (?) and ttl_ms is null`,
    order: [0],
  },
  enqueue: {
    text: `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at, eta, expires_at,
  idempotency_key, ordering_key, parks_key, redacted_args, redacted_kwargs, error_history, created_at, updated_at)
values (?, ?, ?, ?, from_base64(?), from_base64(?), from_base64(?), from_base64(?), ?, ?,
  ?, coalesce(timestamp '1970-01-01 00:00:00' + interval cast(? as signed) * 1000 microsecond, utc_timestamp(6)),
  timestamp '1970-01-01 00:00:00' + interval cast(? as signed) * 1000 microsecond,
  timestamp '1970-01-01 00:00:00' + interval cast(? as signed) * 1000 microsecond,
  from_base64(?), from_base64(?), ?, from_base64(?), from_base64(?), '', utc_timestamp(6), utc_timestamp(6))`,
    order: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 12, 13, 14, 15, 16, 17],
  },
  fenceRead: {
    text: `select cast(epoch as char) as epoch, run from outlast_fence where task_id = ? for update`,
    order: [0],
  },
  fenceTake: {
    text: `insert into outlast_fence (task_id, epoch, run, look_at, updated_at)
values (?, cast(? as signed), ?, utc_timestamp(6) + interval 1 minute, utc_timestamp(6))
on duplicate key update
  run = if(values(epoch) > epoch, values(run), run),
  epoch = greatest(epoch, values(epoch)),
  look_at = values(look_at), is_over = false, updated_at = values(updated_at)`,
    order: [0, 1, 2],
  },
  fencesDue: {
    text: `select task_id, is_over from outlast_fence where look_at < utc_timestamp(6) order by look_at limit ?`,
    order: [0],
  },
  fencesForget: {
    text: `delete from outlast_fence where task_id in (?)`,
    order: [0],
  },
  fencesLater: {
    text: `update outlast_fence set is_over = false,
  look_at = utc_timestamp(6) + interval least(greatest(timestampdiff(second, updated_at, utc_timestamp(6)), 60), 3600) second
where task_id in (?)`,
    order: [0],
  },
  fencesLock: {
    text: `select task_id, is_over from outlast_fence
where task_id in (?) and look_at < utc_timestamp(6) for update skip locked`,
    order: [0],
  },
  fencesOver: {
    text: `update outlast_fence set is_over = true, look_at = utc_timestamp(6) + interval ? * 1000 microsecond where task_id in (?)`,
    order: [1, 0],
  },
  lockDeadLetter: {
    text: `select task_id as id, version, coalesce(expires_at <= utc_timestamp(6), 0) as is_expired
from outlast_dead_letter where task_id = ? for update`,
    order: [0],
  },
  lockOrderingKeys: {
    text: `select cast(slot as char) as slot from outlast_ordering_key where slot in (?) order by slot limit 1000000 for update`,
    order: [0],
  },
  markSent: {
    text: `update outlast_outbox
set state = 'sent', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6),
  available_at = utc_timestamp(6) + interval ? * 1000 microsecond
where id in (?) and claim_token = ? and state = 'claimed'`,
    order: [2, 1, 0],
  },
  openTransactions: {
    text: `select concat('thread ', t.trx_mysql_thread_id, ' (transaction open for ',
  timestampdiff(second, t.trx_started, now()), ' s): ', left(coalesce(t.trx_query, p.info, 'idle'), 100)) as blocker
from information_schema.innodb_trx t left join information_schema.processlist p on p.id = t.trx_mysql_thread_id
where t.trx_mysql_thread_id <> ?
  and exists (select 1 from information_schema.processlist o where o.id = ? and o.state like 'Waiting for%lock')
order by t.trx_started limit 5`,
    order: [0, 0],
  },
  outboxFailing: {
    text: `select f.name, sum(f.retries) as failures from (
  select task_name as name, retries from outlast_dead_letter
  union all
  select w.task_name, w.retries from (
    select task_name, retries from outlast_outbox force index (outlast_outbox_due)
    where state in ('pending', 'claimed') and retries > 0 limit 10000) w
) f group by f.name order by sum(f.retries) desc, f.name limit ?`,
    order: [0],
  },
  outboxFind: {
    text: `select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= ? as supported, o.retries,
  o.last_error, o.ordering_key, o.options, timestampdiff(microsecond, '1970-01-01 00:00:00', o.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms
from outlast_outbox o where o.task_id = ?`,
    order: [0, 1],
  },
  outboxLetterCount: {
    text: `select count(*) as count from outlast_dead_letter`,
    order: [],
  },
  outboxLetter: {
    text: `select d.task_id as id, d.task_name as name, d.queue, d.failure_reason as error, d.version,
  date_format(d.dead_at, '%Y-%m-%dT%H:%i:%s.%fZ') as dead_at,
  timestampdiff(microsecond, '1970-01-01 00:00:00', d.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', d.expires_at) div 1000 as expires_ms,
  concat('[', d.args, ',', d.kwargs, ',', d.embed, ']') as body, d.options, d.redacted_args, d.redacted_kwargs,
  d.error_history as history, d.ordering_key
from outlast_dead_letter d where d.task_id = ?`,
    order: [0],
  },
  outboxLettersNewest: {
    text: `select d.task_id as id, d.task_name as name, d.queue, d.failure_reason as error, d.version,
  date_format(d.dead_at, '%Y-%m-%dT%H:%i:%s.%fZ') as dead_at,
  timestampdiff(microsecond, '1970-01-01 00:00:00', d.created_at) div 1000 as created_ms, d.ordering_key, d.options
from outlast_dead_letter d force index (outlast_dead_letter_dead_at)
where (? is null or d.dead_at < ? or (d.dead_at = ? and d.task_id < ?)) and (? is null or d.task_name like ?)
order by d.dead_at desc, d.task_id desc limit ?`,
    order: [0, 0, 0, 1, 2, 2, 3],
  },
  outboxLettersOldest: {
    text: `select d.task_id as id, d.task_name as name, d.queue, d.failure_reason as error, d.version,
  date_format(d.dead_at, '%Y-%m-%dT%H:%i:%s.%fZ') as dead_at,
  timestampdiff(microsecond, '1970-01-01 00:00:00', d.created_at) div 1000 as created_ms, d.ordering_key, d.options
from outlast_dead_letter d force index (outlast_dead_letter_dead_at)
where (? is null or d.dead_at > ? or (d.dead_at = ? and d.task_id > ?)) and (? is null or d.task_name like ?)
order by d.dead_at, d.task_id limit ?`,
    order: [0, 0, 0, 1, 2, 2, 3],
  },
  outboxList: {
    text: `select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= ? as supported, o.retries,
  o.last_error, o.ordering_key, o.options, timestampdiff(microsecond, '1970-01-01 00:00:00', o.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms
from outlast_outbox o where o.id > ? order by o.id limit ?`,
    order: [0, 1, 2],
  },
  outboxNextDue: {
    text: `select greatest(0, timestampdiff(microsecond, utc_timestamp(6), min(n.available_at))) div 1000 as wait_ms from (
  (select o.available_at from outlast_outbox o force index (outlast_outbox_plain)
    where o.ordering_key is null and o.state = 'pending' and o.schema_version <= ?
      and o.available_at >= coalesce(timestamp '1970-01-01 00:00:00' + interval ? * 1000 microsecond, timestamp '0001-01-01 00:00:00')
    order by o.available_at, o.id limit 1)
  union all
  select h.available_at from (
    select min(id) as id from outlast_outbox force index (outlast_outbox_ordered)
    where ordering_key > '' group by ordering_key order by ordering_key limit 1000
  ) f straight_join outlast_outbox h on h.id = f.id
  where h.state = 'pending' and h.schema_version <= ?
    and not exists (select 1 from outlast_dead_letter d where d.ordering_key = h.ordering_key and d.parks_key)
) n`,
    order: [0, 1, 0],
  },
  outboxQueuesSampled: {
    text: `select s.queue, round(count(*) * ? / (2 * ?)) as count from (
  (select queue from outlast_outbox force index (outlast_outbox_due) order by state, available_at, id limit ?)
  union all
  (select queue from outlast_outbox force index (outlast_outbox_due) order by state desc, available_at desc, id desc limit ?)
) s group by s.queue order by s.queue`,
    order: [1, 0, 0, 0],
  },
  outboxQueues: {
    text: `select queue, count(*) as count from outlast_outbox force index (outlast_outbox_due) group by queue order by queue`,
    order: [],
  },
  outboxRecent: {
    text: `select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= ? as supported, o.retries,
  o.last_error, o.ordering_key, o.options, timestampdiff(microsecond, '1970-01-01 00:00:00', o.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms
from outlast_outbox o order by o.id desc limit ?`,
    order: [0, 1],
  },
  outboxSample: {
    text: `select state, count(*) as count, sum(schema_version > ?) as unsupported, sum(available_at <= utc_timestamp(6)) as due,
  sum(available_at > utc_timestamp(6) and (claims > 0 or deaths > 0) and retries > 0) as backoff,
  sum(available_at > utc_timestamp(6) and (claims > 0 or deaths > 0) and retries = 0) as deferred,
  timestampdiff(microsecond, min(greatest(created_at, coalesce(eta, created_at))), utc_timestamp(6)) div 1000 as oldest_ms
from outlast_outbox force index (outlast_outbox_due) group by state`,
    order: [0],
  },
  outboxView: {
    text: `select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.state, o.schema_version <= ? as supported, o.retries,
  o.last_error, o.ordering_key, o.options, timestampdiff(microsecond, '1970-01-01 00:00:00', o.created_at) div 1000 as created_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.available_at) div 1000 as available_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.eta) div 1000 as eta_ms,
  concat('[', o.args, ',', o.kwargs, ',', o.embed, ']') as body, o.redacted_args, o.redacted_kwargs, o.error_history as history,
  o.claims, o.claimed_by,
  o.state = 'claimed' and (o.claimed_until < utc_timestamp(6)
    or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= utc_timestamp(6))) as claim_over,
  (select f.task_id from outlast_outbox f where f.ordering_key = o.ordering_key and f.id < o.id order by f.id limit 1) as behind,
  (select d.task_id from outlast_dead_letter d where d.ordering_key = o.ordering_key and d.parks_key limit 1) as parked,
  (select count(*) from outlast_relay l where l.lease_until >= utc_timestamp(6)) as relays,
  timestampdiff(microsecond, '1970-01-01 00:00:00', utc_timestamp(6)) div 1000 as now_ms
from outlast_outbox o where o.task_id = ?`,
    order: [0, 1],
  },
  packetLimit: {
    text: `select cast(@@max_allowed_packet as char) as bytes`,
    order: [],
  },
  proofRemove: {
    text: `delete from outlast_send_key where key_hash = ?`,
    order: [0],
  },
  proofWrite: {
    text: `insert into outlast_send_key (key_hash, task_id, fingerprint, token, free_at) values (?, '-', '-', '-', utc_timestamp(6))`,
    order: [0],
  },
  pruneEffectKeys: {
    text: `delete from outlast_effect_key where ends_at < utc_timestamp(6) order by ends_at limit ?`,
    order: [0],
  },
  pruneEffects: {
    text: `delete from outlast_effect where ends_at < utc_timestamp(6) order by ends_at limit ?`,
    order: [0],
  },
  pruneSendKeysGone: {
    text: `delete from outlast_send_key where key_hash in (?)`,
    order: [0],
  },
  pruneSendKeys: {
    text: `select k.key_hash from outlast_send_key k force index (outlast_send_key_free_at)
where k.free_at < utc_timestamp(6) and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
order by k.free_at limit ? for update skip locked`,
    order: [0],
  },
  purgeDeadLetters: {
    text: `select task_id as id, task_name as name from outlast_dead_letter force index (outlast_dead_letter_dead_at)
where (? is null or dead_at < utc_timestamp(6) - interval ? * 1000 microsecond)
  and (? is null or created_at < utc_timestamp(6) - interval ? * 1000 microsecond)
  and (? is null or task_name like ?)
order by dead_at, task_id limit ? for update skip locked`,
    order: [0, 0, 1, 1, 2, 2, 3],
  },
  readDigests: {
    text: `select task_id as id, digest from outlast_outbox where task_id in (?) order by task_id limit 1000000 lock in share mode`,
    order: [0],
  },
  readGeneration: {
    text: `select generation from outlast_generation where node = ?`,
    order: [0],
  },
  readResult: {
    text: `select 'dead' as state, d.failure_reason, d.task_id as id from outlast_dead_letter d where d.task_id = ?
union all
select 'pending', null, o.task_id from outlast_outbox o where o.task_id = ?
limit 1`,
    order: [0, 0],
  },
  readSendKeys: {
    text: `select k.key_hash, k.task_id as held_by, k.fingerprint, k.token,
  case when k.free_at <= utc_timestamp(6) and not exists (select 1 from outlast_outbox o where o.task_id = k.task_id)
    then 'yes' else 'no' end as is_free
from outlast_send_key k where k.key_hash in (?) order by k.key_hash limit 1000000 for update`,
    order: [0],
  },
  receiptLater: {
    text: `update outlast_outbox
set available_at = utc_timestamp(6) + interval ? * 1000 microsecond, last_error = nullif(last_error, ?)
where id in (?) and state = 'sent'`,
    order: [1, 2, 0],
  },
  receiptLease: {
    text: `update outlast_outbox set available_at = utc_timestamp(6) + interval ? * 1000 microsecond where id in (?)`,
    order: [1, 0],
  },
  receiptPark: {
    text: `update outlast_outbox
set available_at = utc_timestamp(6) + interval ? * 1000 microsecond, last_error = ?
where id in (?) and state = 'sent'`,
    order: [1, 2, 0],
  },
  receiptReceived: {
    text: `delete from outlast_outbox where id in (?) and state = 'sent'`,
    order: [0],
  },
  receiptSendAgain: {
    text: `update outlast_outbox set state = 'pending', available_at = utc_timestamp(6), updated_at = utc_timestamp(6)
where id in (?) and claims = ? and state = 'sent'`,
    order: [0, 1],
  },
  receiptTake: {
    text: `select o.id as row_id, o.task_id as id, o.claims, timestampdiff(microsecond, o.updated_at, utc_timestamp(6)) div 1000 as age_ms,
  o.ordering_key is not null as is_ordered, o.ordering_key is not null and o.parks_key as parks_key,
  coalesce(o.last_error = ?, false) as is_parked
from outlast_outbox o force index (outlast_outbox_due)
where o.state = 'sent' and o.available_at <= utc_timestamp(6)
order by o.available_at, o.id limit ? for update skip locked`,
    order: [1, 0],
  },
  reclaimLock: {
    text: `select o.id as row_id from outlast_outbox o
where o.id in (?) and o.state = 'claimed' and (
  o.claimed_until < utc_timestamp(6)
  or not exists (select 1 from outlast_relay r where r.id = o.claimed_by and r.lease_until >= utc_timestamp(6)))
order by o.id for update skip locked`,
    order: [0],
  },
  reclaimMark: {
    text: `update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6)
where id in (?)`,
    order: [0],
  },
  reclaim: {
    text: `select o.id as row_id
from outlast_outbox o force index (outlast_outbox_claimed) left join outlast_relay r on r.id = o.claimed_by
where o.claim_token > '' and (
  o.claimed_until < utc_timestamp(6) or r.lease_until is null or r.lease_until < utc_timestamp(6))
limit ?`,
    order: [0],
  },
  relayBeat: {
    text: `insert into outlast_relay (id, lease_until) values (?, utc_timestamp(6) + interval ? * 1000 microsecond)
on duplicate key update lease_until = values(lease_until)`,
    order: [0, 1],
  },
  relayLeave: {
    text: `delete from outlast_relay where id = ? or lease_until < utc_timestamp(6) - interval 1 day`,
    order: [0],
  },
  releaseClaim: {
    text: `update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, updated_at = utc_timestamp(6)
where id in (?) and claim_token = ? and state = 'claimed'`,
    order: [1, 0],
  },
  renewClaim: {
    text: `update outlast_outbox set claimed_until = utc_timestamp(6) + interval ? * 1000 microsecond
where id in (?) and claim_token = ? and state = 'claimed'`,
    order: [2, 1, 0],
  },
  reviveDeadLetter: {
    text: `insert into outlast_outbox (id, task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, available_at, eta, expires_at, idempotency_key, deaths, error_history, created_at, updated_at,
  ordering_key, parks_key, redacted_args, redacted_kwargs)
select case when parks_key then row_id else null end,
  task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
  payload_version, utc_timestamp(6), eta, expires_at, idempotency_key, version,
  case when length(error_history) > 262144 then error_history else concat(error_history, '{"at":"',
    date_format(utc_timestamp(6), '%Y-%m-%dT%H:%i:%s.%fZ'), '","step":"revived","epoch":0}', char(10)) end, created_at, utc_timestamp(6),
  ordering_key, parks_key, redacted_args, redacted_kwargs
from outlast_dead_letter where task_id = ?`,
    order: [0],
  },
  scheduleDeclare: {
    text: `update outlast_schedule set declared_until_ms = (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) + ?
where name = ? and digest = ? and origin = 'config' and declared_until_ms < (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) + ? - ?`,
    order: [2, 0, 1, 2, 3],
  },
  scheduleDeclared: {
    text: `select name from outlast_schedule where name = ? and digest = ? and origin = 'config'`,
    order: [0, 1],
  },
  scheduleDelete: {
    text: `delete from outlast_schedule where name = ?`,
    order: [0],
  },
  scheduleDue: {
    text: `select name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms, last_task, fired, missed, error,
  declared_until_ms, disputed_until_ms
from outlast_schedule
where paused = false and due_ms <= (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000)
  and (declared_until_ms is null or declared_until_ms > (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000))
order by due_ms, name
limit ?`,
    order: [0],
  },
  scheduleInsert: {
    text: `insert ignore into outlast_schedule (name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms,
  last_task, fired, missed, error, declared_until_ms, disputed_until_ms)
select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? from dual
where (select count(*) from (select name from outlast_schedule) as counted) < ?`,
    order: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
  },
  scheduleList: {
    text: `select name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms, last_task, fired, missed, error,
  declared_until_ms, disputed_until_ms
from outlast_schedule where name > ? order by name limit ?`,
    order: [0, 1],
  },
  scheduleLock: {
    text: `select 1 as locked from outlast_schedule where name = ? and version = ? for update skip locked`,
    order: [0, 1],
  },
  scheduleNext: {
    text: `select cast((timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) as char) as now_ms,
  (select min(due_ms) from outlast_schedule
   where paused = false and (declared_until_ms is null or declared_until_ms > (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000))) as due_ms`,
    order: [],
  },
  schedulePrune: {
    text: `delete from outlast_schedule where origin = 'config' and declared_until_ms < (timestampdiff(microsecond, timestamp '1970-01-01 00:00:00', utc_timestamp(6)) div 1000) - ?`,
    order: [0],
  },
  scheduleRead: {
    text: `select name, version, origin, paused, definition, digest, seal, next_slot_ms, due_ms, last_slot_ms, last_task, fired, missed, error,
  declared_until_ms, disputed_until_ms
from outlast_schedule where name = ?`,
    order: [0],
  },
  scheduleUpdate: {
    text: `update outlast_schedule set version = ?, origin = ?, paused = ?, definition = ?, digest = ?, seal = ?, next_slot_ms = ?,
  due_ms = ?, last_slot_ms = ?, last_task = ?, fired = ?, missed = ?, error = ?, declared_until_ms = greatest(declared_until_ms, ?),
  disputed_until_ms = ?
where name = ?`,
    order: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0],
  },
  serverVersion: {
    text: `select version() as version`,
    order: [],
  },
  setIsolation: {
    text: `set session transaction isolation level read committed`,
    order: [],
  },
  setSession: {
    text: `set session autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',
  character_set_client = utf8mb4, character_set_results = utf8mb4, collation_connection = utf8mb4_bin,
  sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_auto_is_null = 0,
  innodb_lock_wait_timeout = 10, lock_wait_timeout = 30
  /*!80001 , max_execution_time = 30000, wait_timeout = 300 */
  /*M!100600 , max_statement_time = 30, idle_transaction_timeout = 10 */`,
    order: [],
  },
  setUnlimited: {
    text: `set session lock_wait_timeout = 1 /*M!100600 , max_statement_time = 0 */`,
    order: [],
  },
  settleDeadLock: {
    text: `select id as row_id from outlast_outbox where id = ? and claim_token = ? and state = 'claimed' for update`,
    order: [1, 0],
  },
  settleDeadRow: {
    text: `delete from outlast_outbox where id = ? and claim_token = ? and state = 'claimed'`,
    order: [1, 0],
  },
  settleDead: {
    text: `insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed, options, digest,
  schema_version, payload_version, eta, expires_at, idempotency_key, retries, failure_reason, error_history, created_at,
  dead_at, row_id, ordering_key, parks_key, redacted_args, redacted_kwargs)
select case when exists (select 1 from outlast_dead_letter l where l.task_id = o.task_id and l.digest <> o.digest)
    then concat(o.task_id, '#', left(o.digest, 16)) else o.task_id end,
  o.deaths + 1, o.task_name, o.queue, o.priority, o.args, o.kwargs, o.embed, o.options, o.digest,
  o.schema_version, o.payload_version, o.eta, o.expires_at, o.idempotency_key, o.retries + 1, ?,
  case when length(o.error_history) > 262144 then o.error_history
    else concat(o.error_history, '{"at":"', date_format(utc_timestamp(6), '%Y-%m-%dT%H:%i:%s.%fZ'), '",', ?) end,
  o.created_at, utc_timestamp(6), o.id, o.ordering_key, o.parks_key, o.redacted_args, o.redacted_kwargs
from outlast_outbox o where o.id = ? and o.claim_token = ? and o.state = 'claimed'
on duplicate key update version = outlast_dead_letter.version + 1, failure_reason = values(failure_reason),
  error_history = case when length(outlast_dead_letter.error_history) > 262144 then outlast_dead_letter.error_history
    else concat(outlast_dead_letter.error_history, values(error_history)) end,
  dead_at = values(dead_at), row_id = values(row_id)`,
    order: [2, 3, 1, 0],
  },
  settleFailed: {
    text: `update outlast_outbox
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, retries = retries + 1, last_error = ?,
  error_history = case when length(error_history) > 262144 then error_history
    else concat(error_history, '{"at":"', date_format(utc_timestamp(6), '%Y-%m-%dT%H:%i:%s.%fZ'), '",', ?) end,
  available_at = utc_timestamp(6) + interval ? * 1000 microsecond, updated_at = utc_timestamp(6)
where id = ? and claim_token = ? and state = 'claimed'`,
    order: [2, 4, 3, 1, 0],
  },
  settleGeneration: {
    text: `insert into outlast_generation (node, shown, generation, changed_at) values (?, ?, ?, utc_timestamp(6))
on duplicate key update
  generation = greatest(generation + if(shown = values(shown), 0, 1), values(generation)),
  shown = values(shown),
  changed_at = values(changed_at)`,
    order: [0, 1, 2],
  },
  settlePublished: {
    text: `delete from outlast_outbox where id in (?) and claim_token = ? and state = 'claimed'`,
    order: [1, 0],
  },
  takeOverSendKeyProven: {
    text: `update outlast_send_key k join outlast_send_key proof on proof.key_hash = ?
set k.task_id = ?, k.fingerprint = ?, k.token = ?,
  k.free_at = utc_timestamp(6) + interval cast(? as signed) * 1000 microsecond
where k.key_hash = ?`,
    order: [5, 1, 2, 3, 4, 0],
  },
  takeOverSendKey: {
    text: `update outlast_send_key
set task_id = ?, fingerprint = ?, token = ?, free_at = utc_timestamp(6) + interval cast(? as signed) * 1000 microsecond
where key_hash = ?`,
    order: [1, 2, 3, 4, 0],
  },
  takeSendKey: {
    text: `insert into outlast_send_key (key_hash, task_id, fingerprint, token, free_at)
values (?, ?, ?, ?, utc_timestamp(6) + interval cast(? as signed) * 1000 microsecond)
on duplicate key update key_hash = outlast_send_key.key_hash`,
    order: [0, 1, 2, 3, 4],
  },
  tierForget: {
    text: `delete from outlast_tier where role = ? and store_hash = sha2(?, 256)`,
    order: [0, 1],
  },
  tierList: {
    text: `select role, store, last_at from outlast_tier order by last_at, role, store`,
    order: [],
  },
  tierNote: {
    text: `insert into outlast_tier (role, store_hash, store, last_at) values (?, sha2(?, 256), ?, utc_timestamp(6))
on duplicate key update last_at = values(last_at)`,
    order: [0, 1, 1],
  },
  transactionCheck: {
    text: `release savepoint outlast_transaction`,
    order: [],
  },
  transactionMark: {
    text: `savepoint outlast_transaction`,
    order: [],
  },
  transactionOpen: {
    text: `select 1 from outlast_ordering_key where slot < 0 lock in share mode`,
    order: [],
  },
  withdrawLook: {
    text: `select o.id as row_id, o.task_id as id, o.task_name as name, o.queue, o.priority, o.payload_version,
  concat('[', o.args, ',', o.kwargs, ',', o.embed, ']') as body, o.options, o.digest,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.eta) div 1000 as eta_ms,
  timestampdiff(microsecond, '1970-01-01 00:00:00', o.expires_at) div 1000 as expires_ms, o.retries, o.claims
from outlast_outbox o where o.task_id = ? and o.state = 'pending'`,
    order: [0],
  },
  withdrawRow: {
    text: `delete from outlast_outbox where task_id = ? and state = 'pending'`,
    order: [0],
  },
};

import { type Check, type CheckLimits, advise, ok, problem } from '../telemetry/checkup.ts';
import type { CheckupTarget } from '../admin/doctor.ts';
import type { AdmissionStore } from '../admission/admission-store.ts';
import type { RedisLedgerStores } from '../adapters/redis/open-redis-ledger.ts';
import { isSameRedis } from '../adapters/redis/redis-url.ts';
import type { ResolvedConfig } from '../config/config.ts';
import { isOutlastError, isUnavailable } from '../errors/error.ts';
import { checkChords } from '../ledger/chord-check.ts';
import { checkObjectives } from '../ledger/objectives-check.ts';
import { queueChecks } from '../ledger/queue-check.ts';
import { recoveryCheck, recoveryLimitMs } from '../ledger/recovery-check.ts';
import { checkRefused } from '../ledger/refused-check.ts';
import { clockCheck } from '../outbox/outbox-checks.ts';
import type { Context } from './context.ts';
import { type LedgerParts, ledgerParts } from './messaging.ts';
import { ledgerIn, openDatabase, openLedger } from './openers.ts';
import type { OutboxDatabase } from '../adapters/sql/dialect.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import type { ScheduleStore } from '../schedule/schedule-store.ts';
import { checkTiers } from './tier-memory.ts';

type RedisConfig = Pick<ResolvedConfig, 'broker' | 'ledger' | 'worker'>;

interface RedisCheck {
  readonly target: 'ledger' | 'broker';
  /** Null: no ledger is there. */
  readonly ledger: LedgerParts | null;
  /** Refuses a Redis that may forget by itself with ERR_CONFIG_TIER; returns warnings about what it does not keep. */
  readonly look: () => Promise<readonly string[]>;
}

/** Before tasks are run: a Redis that may forget by itself is refused, one that forgets when it stops is told of. */
export async function preflight({ config, log }: Pick<Context, 'config' | 'log'>): Promise<void> {
  for (const { target, look } of redisOf(config)) {
    for (const warning of await look()) log.warn({ option: target }, warning);
  }
}

/** The same before tasks are published. A relay starts also where Redis is away: its rows wait. */
export async function relayPreflight(context: Pick<Context, 'config' | 'log'>): Promise<void> {
  try {
    await preflight(context);
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    context.log.warn({ error }, 'Redis cannot be asked whether it keeps what it is given');
  }
}

/** What a doctor looks at. */
export function redisTargets(config: RedisConfig, limits: CheckLimits): readonly CheckupTarget[] {
  return redisOf(config).map(({ target, ledger, look }) => ({
    target,
    check: async () => [
      ...(await examine(look)),
      ...(ledger === null
        ? []
        : [
            await onLedger(ledger, ({ admission }) => checkRoom(admission)),
            await onLedger(ledger, one => checkClock(one, limits)),
            await onLedger(ledger, one => checkRecovery(one, limits)),
            ...(await checkQueues(config, ledger, limits)),
            await onLedger(ledger, one => checkRefused(one.ledger.refusals, limits)),
            await onLedger(ledger, ({ reads }) => checkChords(reads, limits)),
            await onLedger(ledger, ({ reads }) => checkObjectives(reads)),
          ]),
    ],
  }));
}

/** Every Redis of the configuration, once. */
function redisOf(config: RedisConfig): readonly RedisCheck[] {
  const { broker, worker } = config;
  const ledger = ledgerParts(config);
  const isApart = broker?.kind === 'redis' && !(ledger && isSameRedis(ledger.url, broker.url));
  const queues = Object.keys(worker.queues);
  return [
    ...(ledger
      ? [
          {
            target: 'ledger',
            ledger,
            look: () => onLedger(ledger, one => one.preflight()),
          } as const,
        ]
      : []),
    ...(isApart
      ? [
          {
            target: 'broker',
            ledger: null,
            look: async () => {
              const { checkRedisBroker } = await import('../adapters/redis/redis-preflight.ts');
              return await checkRedisBroker(broker.url, queues);
            },
          } as const,
        ]
      : []),
  ];
}

async function onLedger<T>(
  parts: LedgerParts,
  ask: (opened: RedisLedgerStores) => Promise<T>,
): Promise<T> {
  const opened = await openLedger({ ...parts, generations: null, beside: null });
  try {
    return await ask(opened);
  } finally {
    await opened.close();
  }
}

async function examine(look: RedisCheck['look']): Promise<readonly Check[]> {
  try {
    const warnings = await look();
    const durability =
      warnings.length === 0
        ? [ok('durability', 'what is written is kept in an append-only file')]
        : warnings.map(warning => advise('durability', warning, DURABLE, {}));
    return [ok('memory', 'nothing is thrown away when memory is full'), ...durability];
  } catch (error) {
    if (!isOutlastError(error, 'ERR_CONFIG_TIER')) throw error;
    return [problem('memory', error.message, error.hint, { code: error.code })];
  }
}

/** Whether admission is closed because the server is nearly full: then nothing new comes in, limited or not. */
async function checkRoom(store: Pick<AdmissionStore, 'pressure'>): Promise<Check> {
  const full = await store.pressure();
  if (full === null) return ok('room', 'there is room for new work');
  return problem(
    'room',
    `${full.why}, so no new task is pushed or published`,
    'Raise maxmemory, or find what fills it: npx outlast stats. Rows wait in the outbox at no cost.',
    {},
  );
}

async function checkClock(one: RedisLedgerStores, limits: CheckLimits): Promise<Check> {
  const beforeMs = Date.now();
  const nowMs = await one.nowMs();
  return clockCheck(nowMs, { beforeMs, afterMs: Date.now(), whose: 'Redis' }, limits);
}

const MOST_FOLLOW_UPS = 1_000;

/** Any reaper sees a lease that is over within moments; after this long there is none. */
async function checkRecovery(one: RedisLedgerStores, limits: CheckLimits): Promise<Check> {
  const workers = (await one.control.consumers()).length;
  const limitMs = recoveryLimitMs(workers, limits);
  const lost = { what: 'lost workers', count: await one.countOverdue(limitMs) };
  const followUps = (await one.ledger.after.list(limitMs, MOST_FOLLOW_UPS)).length;
  return recoveryCheck({ lost, followUps, workers }, limits);
}

/**
 * Tasks that the ledger has, and messages that no worker has begun. It is unknown how old those are, and whether workers of
 * Python take them: they are no reason to be woken.
 */
async function checkQueues(
  { broker }: RedisConfig,
  ledger: LedgerParts,
  limits: CheckLimits,
): Promise<readonly Check[]> {
  const [late, consumers] = await onLedger(ledger, async one => [
    await one.lateQueues(limits.maxOrphanMs),
    await one.control.consumers(),
  ]);
  const { unreadQueues } = await import('../adapters/redis/redis-purge.ts');
  const unread = broker?.kind === 'redis' ? await unreadQueues(broker.url) : [];
  const taken = new Set(consumers.flatMap(({ queues }) => queues));
  const untaken = unread.filter(({ queue }) => !taken.has(queue));
  const ofLedger = late.length > 0 || untaken.length === 0 ? queueChecks(late, limits) : [];
  return [
    ...ofLedger,
    ...untaken.map(({ queue, messages }) =>
      advise(
        'queues',
        `${messages} messages lie in ${queue}, and no worker of Outlast takes from it`,
        `Unless Celery takes them, start one: npx outlast worker --queues ${queue}.`,
        { queue, messages },
      ),
    ),
  ];
}

const DURABLE =
  'CONFIG SET appendonly yes, and appendfsync always where no task may be lost; keep both in redis.conf.';

/** Connects to a database and looks at it; its tables may be missing. */
export async function checkDatabase(
  target: OutboxTarget,
  limits: CheckLimits,
  /** Of the database that broker and ledger stand beside; left out: it is an outbox alone. */
  tier?: Pick<ResolvedConfig, 'broker' | 'ledger'>,
): Promise<readonly Check[]> {
  const database = await openDatabase(target, { embedded: 'existing', poolSize: 1 });
  const { checkup, tiers } = database;
  try {
    const checks = await checkup.run(limits);
    const hasTables = checks.every(({ name, status }) => name !== 'schema' || status === 'ok');
    if (!hasTables) return checks;
    const moving = await checkMovers(database, relaysIn(checks), tier?.broker === null);
    if (tier === undefined || tiers === null) return [...checks, moving];
    return [
      ...checks,
      moving,
      await checkTiers(tiers, tier),
      await checkSchedules(database.schedules('outbox')),
    ];
  } finally {
    await database.close();
  }
}

/**
 * At once, and not only when something has waited for long. Relays that publish have a lease; without a broker senders write where
 * workers look, and workers move the few rows that there are.
 */
async function checkMovers(
  database: OutboxDatabase,
  relays: number,
  movesIntoLedger: boolean,
): Promise<Check> {
  const { claimed, due, unsupported } = await database.reads.sample(0);
  const nextDueMs = await database.outbox.nextDueMs();
  const isDue =
    claimed > 0 || (nextDueMs !== null && nextDueMs <= 0) || (movesIntoLedger && due > unsupported);
  if (!isDue) return ok('relays', 'no task waits for a process that is missing', {});
  const movers = movesIntoLedger
    ? (await ledgerIn(database, { movesIntoLedger }).control.consumers()).length
    : relays;
  const details = { movers };
  const who = movesIntoLedger ? 'workers' : 'relays';
  if (movers > 0) return ok('relays', `tasks are due, and ${movers} ${who} are alive`, details);
  const command = movesIntoLedger ? 'npx outlast worker' : 'npx outlast relay';
  const message = movesIntoLedger
    ? 'tasks are due, and no worker is alive'
    : 'rows are due, and none of the relays that move them on is alive';
  return problem('relays', message, `Start one: ${command}.`, details);
}

const relaysIn = (checks: readonly Check[]): number =>
  Number(checks.find(({ name }) => name === 'backlog')?.details['relays'] ?? 0);
const MOST_CHECKED = 10_000;
const MOST_NAMED = 10;

/** Schedules that do not fire as they are configured. */
async function checkSchedules(store: ScheduleStore): Promise<Check> {
  const { nowMs } = await store.clock();
  const all = await store.list('', MOST_CHECKED);
  const failing = all.filter(({ error }) => error !== null);
  const disputed = all.filter(({ disputedUntilMs }) => (disputedUntilMs ?? 0) > nowMs);
  const details = { schedules: all.length, failing: failing.length, disputed: disputed.length };
  if (failing.length + disputed.length === 0)
    return ok('schedules', 'every schedule can be read', details);
  const named = [
    ...failing.map(({ name, error }) => `${name}: ${error}`),
    ...disputed.map(({ name }) => `${name}: two running configurations differ`),
  ];
  const advice = 'Correct them: npx outlast schedule list.';
  return problem('schedules', named.slice(0, MOST_NAMED).join('; '), advice, details);
}

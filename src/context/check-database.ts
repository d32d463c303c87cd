import { ok, problem, type Check, type CheckLimits } from '../telemetry/checkup.ts';
import type { OutboxDatabase } from '../adapters/sql/dialect.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import type { ScheduleStore } from '../schedule/schedule-store.ts';
import { ledgerIn, openDatabase } from './openers.ts';
import { checkTiers } from './tier-memory.ts';

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
      await checkSchedules(database.schedules()),
    ];
  } finally {
    await database.close();
  }
}

/**
 * At once, and not only when rows have waited for long. Relays that publish have a lease; without a broker workers move the rows,
 * and a relay that does needs no lease: as long as it lives, no row is due for more than a moment.
 */
async function checkMovers(
  database: OutboxDatabase,
  relays: number,
  movesIntoLedger: boolean,
): Promise<Check> {
  const { claimed } = await database.reads.sample(0);
  const nextDueMs = await database.outbox.nextDueMs();
  const isDue = claimed > 0 || (nextDueMs !== null && nextDueMs <= 0);
  if (!isDue) return ok('relays', 'no row waits for a relay', {});
  const movers = movesIntoLedger
    ? (await ledgerIn(database, { movesIntoLedger }).control.consumers()).length
    : relays;
  const details = { movers };
  const who = movesIntoLedger ? 'workers' : 'relays';
  if (movers > 0) return ok('relays', `rows are due, and ${movers} ${who} are alive`, details);
  const command = movesIntoLedger ? 'npx outlast worker' : 'npx outlast relay';
  const message = `rows are due, and none of the ${who} that move them on is alive`;
  return problem('relays', message, `Start one: ${command}.`, details);
}

const relaysIn = (checks: readonly Check[]): number =>
  Number(checks.find(({ name }) => name === 'backlog')?.details['relays'] ?? 0);
const MOST_CHECKED = 10_000;
const MOST_NAMED = 10;

/** Schedules that do not fire as somebody has written them. */
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

import type { Check, CheckLimits } from '../telemetry/checkup.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import type { ScheduleStore } from '../schedule/schedule-store.ts';
import { ok, problem } from '../telemetry/checkup.ts';
import { openDatabase } from './openers.ts';
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
    if (tier === undefined || tiers === null || !hasTables) return checks;
    return [...checks, await checkTiers(tiers, tier), await checkSchedules(database.schedules())];
  } finally {
    await database.close();
  }
}

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

import type { Check, CheckLimits } from '../telemetry/checkup.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { OutboxTarget } from '../config/database-target.ts';
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
    return [...checks, await checkTiers(tiers, tier)];
  } finally {
    await database.close();
  }
}

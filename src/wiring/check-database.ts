import { PostgresCheckup } from '../adapters/postgres/postgres-checkup.ts';
import type { Check, CheckLimits } from '../admin/checkup.ts';
import type { DatabaseTarget } from '../config/database-url.ts';
import { systemClock } from '../runtime/clock.ts';
import { openDatabase } from './stores.ts';

/** Connects to a database and looks at it; its tables may be missing. */
export async function checkDatabase(
  target: DatabaseTarget,
  limits: CheckLimits,
): Promise<readonly Check[]> {
  const db = await openDatabase(target, { createIfMissing: false, poolSize: 1 });
  try {
    const isEmbedded = target.kind === 'pglite';
    return await new PostgresCheckup(db, { isEmbedded, nowMs: () => systemClock.now() }).run(
      limits,
    );
  } finally {
    await db.close();
  }
}

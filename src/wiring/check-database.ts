import { PostgresCheckup } from '../adapters/postgres/postgres-checkup.ts';
import type { Check, CheckLimits } from '../admin/checkup.ts';
import type { OutboxTarget } from '../config/database-url.ts';
import { systemClock } from '../runtime/clock.ts';
import { openDatabase } from './stores.ts';

/** Connects to a database and looks at it; its tables may be missing. */
export async function checkDatabase(
  target: OutboxTarget,
  limits: CheckLimits,
): Promise<readonly Check[]> {
  if (target.kind === 'mysql') {
    const { checkMysql } = await import('./mysql-stores.ts');
    return await checkMysql(target.url, limits);
  }
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

import type { MigrateOptions, UninstallReport } from '../adapters/sql/dialect.ts';
import { NOTHING_LEFT, refuseLeftovers } from '../adapters/sql/uninstall.ts';
import type { Context } from './context.ts';
import { uninstallTarget } from './openers.ts';

/** Drops the tables that a context works on, unless tasks are left there or in a ledger elsewhere. Closes the context. */
export async function uninstall(
  context: Context,
  options: MigrateOptions = {},
): Promise<UninstallReport> {
  const { config, outbox } = context;
  try {
    // Fences and effects of its tasks are in the database.
    if (outbox === null && config.ledger.kind !== 'database') await refuseTasksElsewhere(context);
  } finally {
    await context.close();
  }
  return await uninstallTarget(outbox?.target ?? config.database, options);
}

async function refuseTasksElsewhere(context: Context): Promise<void> {
  const { ledgerReads } = await context.adminStores();
  const { waiting, running, dead } = (await ledgerReads.sample(0)).tasks;
  refuseLeftovers({ ...NOTHING_LEFT, tasks: waiting + running, deadLetters: dead });
}

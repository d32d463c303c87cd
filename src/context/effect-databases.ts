import type { OutboxTarget } from '../config/database-target.ts';
import type { FenceRows } from '../recovery/fence-rows.ts';
import { openOutboxDatabase } from './openers.ts';

/**
 * Every database in which effects may be kept under an idempotency key: the main one, and those of the outboxes. A key says
 * nothing about where its effects are. One that cannot be asked is an error: nothing may be called reset while it is not.
 */
export function effectDatabases(
  main: Pick<FenceRows, 'forgetKey'>,
  outboxes: Readonly<Record<string, OutboxTarget>>,
): Pick<FenceRows, 'forgetKey'> {
  return {
    forgetKey: async key => {
      let isForgotten = await main.forgetKey(key);
      for (const target of Object.values(outboxes)) {
        const database = await openOutboxDatabase(target);
        try {
          isForgotten = (await database.fences.forgetKey(key)) || isForgotten;
        } finally {
          await database.close();
        }
      }
      return isForgotten;
    },
  };
}

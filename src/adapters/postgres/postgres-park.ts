import { outlastError } from '../../errors/error.ts';
import type { ParkItem } from '../../ledger/ledger.ts';
import { taskColumns } from './postgres-rows.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Another session that inserts the same id has ended when our statement has: the second look sees its row. */
const MAX_LOOKS = 5;

/** Takes custody of messages: when it returns, every one of them is in the ledger, as itself, as a copy or as a dead letter. */
export async function park(db: SqlDatabase, items: readonly ParkItem[]): Promise<void> {
  let missing = items;
  for (let look = 0; missing.length > 0; look++) {
    if (look === MAX_LOOKS) throw contended(missing);
    const delays = missing.map(({ delayMs }) => (delayMs === null ? null : Math.round(delayMs)));
    const columns = taskColumns(missing.map(({ envelope }) => envelope));
    const refusers = missing.map(({ refusedBy }) => refusedBy ?? null);
    const rows = await db.query(SQL.park, [...columns, delays, refusers]);
    // By id and bytes: of two messages of one batch with the same id the second is resolved at the next look.
    const accounted = new Set(rows.map(row => `${String(row['id'])} ${String(row['digest'])}`));
    missing = missing.filter(({ envelope: { id, digest } }) => !accounted.has(`${id} ${digest}`));
  }
}

function contended(missing: readonly ParkItem[]): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `${missing.length} tasks are being written by others under the same ids`,
    hint: 'Try again.',
    fields: {},
  });
}

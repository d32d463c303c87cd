import type { Ledger } from '../../ledger/ledger.ts';
import type { Ending } from '../../result/result-store.ts';
import type { Told } from '../../wire/reply.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { encodeError } from './postgres-rows.ts';
import { SQL } from './sql.generated.ts';

/** As long as a result is kept by default. */
const KEEP_MS = 86_400_000;

/** Where the waiters for later steps of a workflow learn that these never come. */
export function neverSentRecorder(db: SqlDatabase): NonNullable<Ledger['recordNeverSent']> {
  return async (ids, told, of) => {
    const { ending, error } = endOf(told);
    await db.query(SQL.recordNeverSent, [
      JSON.stringify(ids),
      of,
      ending,
      encodeError(error),
      KEEP_MS,
    ]);
  };
}

const DISCARDED = 'discarded: ';

function endOf(told: Told): {
  readonly ending: Exclude<Ending, 'done'>;
  readonly error: Parameters<typeof encodeError>[0];
} {
  if (told.status === 'FAILURE') return { ending: 'dead', error: told.error };
  const why = told.status === 'REVOKED' ? told.why : '';
  const isDiscarded = why.startsWith(DISCARDED);
  const message = isDiscarded ? why.slice(DISCARDED.length) : why;
  const error = { type: 'TaskRevokedError', message, traceback: '' };
  if (isDiscarded) return { ending: 'discarded', error };
  return { ending: why === 'expired' ? 'expired' : 'cancelled', error };
}

import { outlastError } from '../../errors/error.ts';
import type { BeginReply } from '../../ledger/ledger.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** `unsettled`: no generation was settled for this server, so it begins nothing. */
export type BeginRefusal = { readonly status: 'closed' } | { readonly status: 'unsettled' };

export function refusalOf([row]: readonly SqlRow[]): BeginRefusal | null {
  if (row?.['open'] !== '1') return { status: 'closed' };
  return row['settled'] === '1' ? null : { status: 'unsettled' };
}

/** A further try is needed only if the server has changed again. */
const MAX_TRIES = 5;

/** Begins, and settles a generation if the server has none: it was started, promoted or restored since the last one. */
export async function beginSettled(
  db: SqlDatabase,
  begin: () => Promise<BeginReply | BeginRefusal>,
): Promise<BeginReply> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const reply = await begin();
    if (reply.status !== 'unsettled') return reply;
    await db.query(SQL.settleOwnGeneration);
  }
  throw outlastError('ERR_STORE_UNAVAILABLE', {
    message: 'the database is another server at every look',
    hint: 'Look for a PostgreSQL that restarts again and again, or for two behind one address.',
    fields: {},
  });
}

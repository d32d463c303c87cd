import type { Comparison, TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import { systemRandom } from '../../runtime/runtime.ts';
import type { SqlRunner } from '../sql/sql-database.ts';
import type { SchemaNames } from './schema-names.ts';
import { SQL } from './sql.generated.ts';

export interface OwnSide {
  readonly own: SqlRunner;
  /** Of the tables there, which the transaction is to find under the same names. */
  readonly names?: SchemaNames | null;
}

/** Marks the database of a transaction and looks for the mark through our own connections. */
export async function comparePostgres<Tx>(
  tx: Tx,
  adapter: Pick<TransactionAdapter<Tx>, 'execute'>,
  { own, names = null }: OwnSide,
): Promise<Comparison> {
  const key = String(Math.floor(systemRandom.next() * Number.MAX_SAFE_INTEGER));
  const put = (text: string): string => names?.text(text) ?? text;
  const [theirs] = await adapter.execute(tx, put(SQL.databaseMark), [key]);
  const [ours] = await own.query(SQL.databaseSeen, [key]);
  const outbox = theirs?.['outbox'] ?? null;
  const answer = (isSame: boolean | null): Comparison => ({ isSame, name: theirs?.['name'] ?? '' });
  // A mark that cannot be visible there proves nothing: an outbox is missing, or ours is a standby.
  if (outbox === null || ours?.['outbox'] === null || ours?.['is_standby'] === 'yes')
    return answer(null);
  if (ours?.['outbox'] !== outbox) return answer(false);
  if (ours['is_marked'] === 'yes') return answer(true);
  const [still] = await adapter.execute(tx, put(SQL.databaseSeen), [key]);
  return answer(still?.['is_marked'] === 'yes' ? false : null);
}

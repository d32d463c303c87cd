import type { Comparison, TextRow, TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { MysqlRow } from './mysql-database.ts';
import { SQL } from './sql.generated.ts';

/** Compares when the tables of two connections' databases were created. */
export async function compareMysql<Tx>(
  tx: Tx,
  adapter: Pick<TransactionAdapter<Tx>, 'execute'>,
  own: { query(text: string): Promise<readonly MysqlRow[]> },
): Promise<Comparison> {
  const { text } = SQL.databaseMark;
  // A sender need not be allowed to read that table, and an error here harms no transaction.
  const theirs = await adapter.execute(tx, text, []).catch(() => []);
  const ours = await own.query(text);
  const name = theirs[0]?.['name'] ?? '';
  if (theirs.length === 0 || ours.length === 0) return { isSame: null, name };
  return { isSame: printOf(theirs) === printOf(ours), name };
}

const printOf = (rows: readonly (TextRow | MysqlRow)[]): string =>
  JSON.stringify(rows.map(row => [row['base'], row['applied']]));

import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import { decodeError } from './postgres-rows.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

const UNKNOWN: ResultRecord = {
  state: 'unknown',
  ending: null,
  result: null,
  error: null,
  why: null,
};

/** Outcomes stay in the ledger's rows until they expire. */
export class PostgresResultStore implements ResultStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async read(id: string): Promise<ResultRecord> {
    const row = (await this.#db.query(SQL.readResult, [id]))[0];
    if (!row) return UNKNOWN;
    const error = decodeError(row['error'] as Uint8Array | null);
    const ending = row['ending'] as ResultRecord['ending'];
    return {
      state: row['state'] as ResultRecord['state'],
      ending,
      result: row['result'] as Uint8Array | null,
      error,
      why: ending === 'discarded' ? (error?.message ?? '') : (row['reason'] as string | null),
      ...(row['of_id'] === null ? {} : { of: row['of_id'] as string }),
    };
  }
}

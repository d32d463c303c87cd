import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { SQL } from './sql.generated.ts';

const NOTHING = { result: null, error: null, why: null } as const;

/** What an outbox knows of a task's end: that it waits here, or could not be published. Results are in the ledger. */
export class MysqlResultStore implements ResultStore {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async read(id: string): Promise<ResultRecord> {
    const [row] = await this.#db.rows(SQL.readResult, [id]);
    if (row?.['id'] !== id) return { ...NOTHING, state: 'unknown', ending: null };
    if (row['state'] === 'pending') return { ...NOTHING, state: 'pending', ending: null };
    const message = row['failure_reason'] as string;
    const error = { type: 'relay', message, traceback: '' };
    return { state: 'dead', ending: 'dead', result: null, error, why: 'relay' };
  }
}

import type { GenerationStore } from '../../ledger/generation-store.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Generations of ledgers, in the database of the outbox. */
export class PostgresGenerationStore implements GenerationStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async settle(node: string, shown: string, atLeast: number): Promise<number> {
    const rows = await this.#db.query(SQL.settleGeneration, [node, shown, Math.max(0, atLeast)]);
    return Number(rows[0]?.['generation']);
  }
}

import type { GenerationStore } from '../../ledger/generation-store.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { SQL } from './sql.generated.ts';

/** Generations of ledgers, in the database of the outbox. */
export class MysqlGenerationStore implements GenerationStore {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async settle(node: string, shown: string, atLeast: number): Promise<number> {
    return await this.#db.atomically(async session => {
      await session.change(SQL.settleGeneration, [node, shown, Math.max(0, atLeast)]);
      const rows = await session.rows(SQL.readGeneration, [node]);
      return Number(rows[0]?.['generation']);
    });
  }
}

import type { LeftBehind, ServedStore, TierMemory } from '../../ledger/tier-store.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { SQL } from './sql.generated.ts';

/** The tiers that a MySQL or MariaDB has served in. It is never the ledger, so nothing is left in it. */
export class MysqlTiers implements TierMemory {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async note(stores: readonly ServedStore[]): Promise<void> {
    for (const { role, store } of stores) await this.#db.change(SQL.tierNote, [role, store]);
  }

  async served(): Promise<readonly ServedStore[]> {
    const rows = await this.#db.rows(SQL.tierList);
    return rows.map(row => ({
      role: row['role'] as ServedStore['role'],
      store: row['store'] as string,
    }));
  }

  async forget({ role, store }: ServedStore): Promise<void> {
    await this.#db.change(SQL.tierForget, [role, store]);
  }

  left(): Promise<LeftBehind> {
    return Promise.resolve({ tasks: 0, dead: 0, followUps: 0, chords: 0 });
  }
}

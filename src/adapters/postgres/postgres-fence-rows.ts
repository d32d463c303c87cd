import type { DueFence, FenceRows } from '../../recovery/fence-rows.ts';
import { keyHash } from '../../worker/effects/door.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** The fences of a PostgreSQL whose ledger is elsewhere. */
export class PostgresFenceRows implements FenceRows {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async due(limit: number): Promise<readonly DueFence[]> {
    const rows = await this.#db.query(SQL.fencesDue, [limit]);
    return rows.map(row => ({ id: row['task_id'] as string, isOver: row['is_over'] as boolean }));
  }

  async later(ids: readonly string[]): Promise<void> {
    await this.#db.query(SQL.fencesLater, [ids]);
  }

  async over(ids: readonly string[], keepMs: number): Promise<void> {
    await this.#db.query(SQL.fencesOver, [ids, Math.round(keepMs)]);
  }

  async forget(ids: readonly string[]): Promise<void> {
    await this.#db.query(SQL.fencesForget, [ids]);
  }

  async prune(limit: number): Promise<number> {
    // Tombstones from the time when this database was the ledger: no other ledger knows them.
    await this.#db.query(SQL.prune, [limit]);
    const [row] = await this.#db.query(SQL.pruneEffects, [limit]);
    return Number(row?.['pruned']);
  }

  async forgetKey(key: string): Promise<boolean> {
    return (await this.#db.query(SQL.effectKeyForget, [keyHash(key)])).length > 0;
  }
}

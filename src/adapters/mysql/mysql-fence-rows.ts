import type { DueFence, FenceRows } from '../../recovery/fence-rows.ts';
import type { MysqlDatabase, MysqlRow, MysqlSession } from './mysql-database.ts';
import { keyHash } from '../../worker/effects/door.ts';
import { SQL } from './sql.generated.ts';

/** The fences of a MySQL or MariaDB: its ledger is always elsewhere. */
export class MysqlFenceRows implements FenceRows {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async due(limit: number): Promise<readonly DueFence[]> {
    return (await this.#db.rows(SQL.fencesDue, [limit])).map(readDue);
  }

  async later(ids: readonly string[]): Promise<void> {
    await this.#locked(ids, async (session, locked) => {
      await session.change(SQL.fencesLater, [locked.map(({ id }) => id)]);
    });
  }

  async over(ids: readonly string[], keepMs: number): Promise<void> {
    await this.#locked(ids, async (session, locked) => {
      await session.change(SQL.fencesOver, [locked.map(({ id }) => id), Math.round(keepMs)]);
    });
  }

  async forget(ids: readonly string[]): Promise<void> {
    await this.#locked(ids, async (session, locked) => {
      const gone = locked.filter(({ isOver }) => isOver).map(({ id }) => id);
      if (gone.length === 0) return;
      await session.change(SQL.effectsForget, [gone]);
      await session.change(SQL.effectsEnd, [gone]);
      await session.change(SQL.fencesForget, [gone]);
    });
  }

  async prune(limit: number): Promise<number> {
    await this.#db.change(SQL.pruneEffectKeys, [limit]);
    return await this.#db.change(SQL.pruneEffects, [limit]);
  }

  async forgetKey(key: string): Promise<boolean> {
    return (await this.#db.change(SQL.effectKeyForget, [keyHash(key)])) > 0;
  }

  /** Only fences that are not in use, and were not used since they were due. */
  async #locked(
    ids: readonly string[],
    fn: (session: MysqlSession, locked: readonly DueFence[]) => Promise<void>,
  ): Promise<void> {
    await this.#db.atomically(async session => {
      const locked = (await session.rows(SQL.fencesLock, [ids])).map(readDue);
      if (locked.length > 0) await fn(session, locked);
    });
  }
}

function readDue(row: MysqlRow): DueFence {
  return { id: row['task_id'] as string, isOver: Number(row['is_over']) === 1 };
}

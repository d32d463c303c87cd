import type { EvacuatedTask } from '../../ledger/evacuation.ts';
import type { LeftBehind, ServedStore, TierStore } from '../../ledger/tier-store.ts';
import { splitBody } from '../../task/input.ts';
import { encodeError, taskColumns } from './postgres-rows.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

const NOTHING = new Uint8Array();
/** The caller has checked before: a body that cannot be split is not moved. */
const NO_PARTS = [NOTHING, NOTHING, NOTHING] as const;

/** The tiers that a PostgreSQL has served in, and the way into its outbox. */
export class PostgresTiers implements TierStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async note(stores: readonly ServedStore[]): Promise<void> {
    const columns = [stores.map(({ role }) => role), stores.map(({ store }) => store)];
    await this.#db.query(SQL.tierNote, columns);
  }

  async served(): Promise<readonly ServedStore[]> {
    const rows = await this.#db.query(SQL.tierList);
    return rows.map(row => ({
      role: row['role'] as ServedStore['role'],
      store: row['store'] as string,
    }));
  }

  async forget({ role, store }: ServedStore): Promise<void> {
    await this.#db.query(SQL.tierForget, [role, store]);
  }

  async left(): Promise<LeftBehind> {
    const row = (await this.#db.query(SQL.tierLeft))[0] ?? {};
    return {
      tasks: Number(row['tasks']),
      dead: Number(row['dead']),
      followUps: Number(row['follow_ups']),
      chords: Number(row['chords']),
    };
  }

  async moveIn(tasks: readonly EvacuatedTask[]): Promise<void> {
    const columns = taskColumns(tasks.map(({ envelope }) => envelope));
    const bodies = tasks.map(({ envelope }) => splitBody(envelope.body) ?? NO_PARTS);
    await this.#db.query(SQL.moveIn, [
      ...columns.slice(0, 5),
      bodies.map(([args]) => args),
      bodies.map(([, kwargs]) => kwargs),
      bodies.map(([, , embed]) => embed),
      ...columns.slice(6),
      tasks.map(({ dueInMs }) => Math.round(dueInMs)),
      tasks.map(({ death }) => death?.reason ?? null),
      tasks.map(({ death }) => (death === null ? null : encodeError(death.error))),
    ]);
  }

  async endMove(): Promise<void> {
    await this.#db.query(SQL.movedForget);
  }
}

import type { Executor, TextRow } from '../../outbox/transaction-adapter.ts';
import { type FaultPoint, noFaults, systemClock } from '../../runtime/runtime.ts';
import {
  type Declared,
  MAX_SCHEDULES,
  type ScheduleChange,
  type ScheduleClock,
  type ScheduleStore,
  type StoredSchedule,
} from '../../schedule/schedule-store.ts';
import { readScheduleRow, scheduleColumns } from '../sql/schedule-rows.ts';
import type { SendTarget } from '../sql/dialect.ts';
import type { SqlDatabase, SqlRunner } from '../sql/sql-database.ts';
import { PostgresOutboxWriter } from './postgres-outbox-writer.ts';
import { SQL } from './sql.generated.ts';

const EXECUTOR: Executor<SqlRunner> = {
  execute: async (tx, text, values) => (await tx.query(text, values)) as readonly TextRow[],
  // Transactions of schedules are begun here, and every statement of them is awaited.
  isCertain: () => true,
};

/** Schedules beside an outbox in PostgreSQL. */
export class PostgresScheduleStore implements ScheduleStore {
  readonly #db: SqlDatabase;
  readonly #faultPoint: FaultPoint;
  readonly #writer: PostgresOutboxWriter<SqlRunner>;

  constructor(db: SqlDatabase, target: SendTarget, faultPoint: FaultPoint = noFaults) {
    this.#db = db;
    this.#writer = new PostgresOutboxWriter(EXECUTOR, systemClock, { target });
    this.#faultPoint = faultPoint;
  }

  async clock(): Promise<ScheduleClock> {
    const row = (await this.#db.query(SQL.scheduleNext))[0] ?? {};
    const { due_ms: dueMs } = row;
    return { nowMs: Number(row['now_ms']), dueMs: dueMs === null ? null : Number(dueMs) };
  }

  async due(limit: number): Promise<readonly StoredSchedule[]> {
    return (await this.#db.query(SQL.scheduleDue, [limit])).map(readScheduleRow);
  }

  async read(name: string): Promise<StoredSchedule | null> {
    const [row] = await this.#db.query(SQL.scheduleRead, [name]);
    return row === undefined ? null : readScheduleRow(row);
  }

  async list(after: string, limit: number): Promise<readonly StoredSchedule[]> {
    return (await this.#db.query(SQL.scheduleList, [after, limit])).map(readScheduleRow);
  }

  async change({ name, seen, to, tasks }: ScheduleChange): Promise<'ok' | 'stale'> {
    return await this.#db.transaction(async tx => {
      // A new row is its own lock; before the first write nothing has to be undone.
      if (!(await (seen === null ? isInserted(tx, name, to) : isLocked(tx, name, seen))))
        return 'stale';
      await this.#faultPoint('schedule.locked-not-written');
      if (tasks.length > 0) await this.#writer.write(tx, tasks);
      await this.#faultPoint('schedule.written-not-advanced');
      if (to === null) await tx.query(SQL.scheduleDelete, [name]);
      else if (seen !== null) await tx.query(SQL.scheduleUpdate, scheduleColumns(name, to));
      await this.#faultPoint('schedule.advanced-not-committed');
      return 'ok';
    });
  }

  async declare(
    own: readonly Declared[],
    ttlMs: number,
    refreshMs: number,
  ): Promise<readonly string[]> {
    if (own.length === 0) return [];
    const columns = [own.map(({ name }) => name), own.map(({ digest }) => digest)];
    await this.#db.query(SQL.scheduleDeclare, [...columns, ttlMs, refreshMs]);
    const rows = await this.#db.query(SQL.scheduleDeclared, columns);
    return rows.map(row => String(row['name']));
  }

  async prune(ageMs: number): Promise<void> {
    await this.#db.query(SQL.schedulePrune, [ageMs]);
  }
}

const isLocked = async (tx: SqlRunner, name: string, seen: string): Promise<boolean> =>
  (await tx.query(SQL.scheduleLock, [name, seen])).length > 0;

async function isInserted(tx: SqlRunner, name: string, to: ScheduleChange['to']): Promise<boolean> {
  if (to === null) return false;
  const values = [...scheduleColumns(name, to), MAX_SCHEDULES];
  return (await tx.query(SQL.scheduleInsert, values)).length > 0;
}

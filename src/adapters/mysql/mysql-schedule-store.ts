import type { TextRow } from '../../outbox/transaction-adapter.ts';
import { noFaults, type FaultPoint } from '../../runtime/runtime.ts';
import {
  MAX_SCHEDULES,
  type Declared,
  type ScheduleChange,
  type ScheduleClock,
  type ScheduleStore,
  type StoredSchedule,
} from '../../schedule/schedule-store.ts';
import { readScheduleRow, scheduleColumns } from '../sql/schedule-rows.ts';
import type { SqlRunner } from '../sql/sql-database.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { MysqlOutboxWriter } from './mysql-outbox-writer.ts';
import { SQL } from './sql.generated.ts';
import { bind, type MysqlStatement } from './statement.ts';

type Param = string | number | boolean | null;

/** Schedules beside an outbox in MySQL or MariaDB. */
export class MysqlScheduleStore implements ScheduleStore {
  readonly #db: MysqlDatabase;
  readonly #faultPoint: FaultPoint;
  readonly #writer = new MysqlOutboxWriter<SqlRunner>({
    execute: async (tx, text, values) => (await tx.query(text, values)) as readonly TextRow[],
    // Its transactions are begun here, and every statement of them is awaited.
    isCertain: () => true,
  });

  constructor(db: MysqlDatabase, faultPoint: FaultPoint = noFaults) {
    this.#db = db;
    this.#faultPoint = faultPoint;
  }

  async clock(): Promise<ScheduleClock> {
    const row = (await this.#db.rows(SQL.scheduleNext))[0] ?? {};
    const { due_ms: dueMs } = row;
    return { nowMs: Number(row['now_ms']), dueMs: dueMs === null ? null : Number(dueMs) };
  }

  async due(limit: number): Promise<readonly StoredSchedule[]> {
    return (await this.#db.rows(SQL.scheduleDue, [limit])).map(readScheduleRow);
  }

  async read(name: string): Promise<StoredSchedule | null> {
    const [row] = await this.#db.rows(SQL.scheduleRead, [name]);
    return row === undefined ? null : readScheduleRow(row);
  }

  async list(after: string, limit: number): Promise<readonly StoredSchedule[]> {
    return (await this.#db.rows(SQL.scheduleList, [after, limit])).map(readScheduleRow);
  }

  async change({ name, seen, to, tasks }: ScheduleChange): Promise<'ok' | 'stale'> {
    return await this.#db.transaction(async tx => {
      // A new row is its own lock; before the first write nothing has to be undone.
      if (!(await (seen === null ? isInserted(tx, name, to) : isLocked(tx, name, seen))))
        return 'stale';
      await this.#faultPoint('schedule.locked-not-written');
      if (tasks.length > 0) await this.#writer.write(tx, tasks);
      await this.#faultPoint('schedule.written-not-advanced');
      if (to === null) await run(tx, SQL.scheduleDelete, [name]);
      else if (seen !== null) await run(tx, SQL.scheduleUpdate, scheduleColumns(name, to));
      await this.#faultPoint('schedule.advanced-not-committed');
      return 'ok';
    });
  }

  async declare(
    own: readonly Declared[],
    ttlMs: number,
    refreshMs: number,
  ): Promise<readonly string[]> {
    const found: string[] = [];
    for (const { name, digest } of own) {
      await this.#db.change(SQL.scheduleDeclare, [name, digest, ttlMs, refreshMs]);
      if ((await this.#db.rows(SQL.scheduleDeclared, [name, digest])).length > 0) found.push(name);
    }
    return found;
  }

  async prune(ageMs: number): Promise<void> {
    await this.#db.change(SQL.schedulePrune, [ageMs]);
  }
}

async function run(
  tx: SqlRunner,
  statement: MysqlStatement,
  params: readonly Param[],
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { text, values } = bind<Param>(statement, params);
  return await tx.query(text, values);
}

const isLocked = async (tx: SqlRunner, name: string, seen: string): Promise<boolean> =>
  (await run(tx, SQL.scheduleLock, [name, seen])).length > 0;

async function isInserted(tx: SqlRunner, name: string, to: ScheduleChange['to']): Promise<boolean> {
  if (to === null) return false;
  await run(tx, SQL.scheduleInsert, [...scheduleColumns(name, to), MAX_SCHEDULES]);
  const [row] = await run(tx, SQL.scheduleRead, [name]);
  return row?.['version'] === to.version;
}

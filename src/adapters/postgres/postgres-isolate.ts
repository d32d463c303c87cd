import { isUnavailable } from '../../errors/error.ts';
import type { BeginReply, BeginRequest, TaskRef } from '../../ledger/ledger.ts';
import { toBytes } from '../../task/json.ts';
import { sqlStateOf } from './pg-errors.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/**
 * SQLSTATE of errors that one row can cause: a value that does not fit (22), a constraint (23), a limit of the server (54), or
 * data that is damaged or too long for an answer (XX).
 */
const OF_A_ROW = /^(22|23|54|XX)/;
/** Each isolates at least one task; if more are needed, something else is wrong. */
const MOST_ROUNDS = 20;

/**
 * Begins. If the statement fails because of a row that another program has written, or that is damaged, that row becomes a
 * dead letter and the rest is begun. A `begin` that does not fail pays nothing for this.
 */
export async function withIsolation(
  db: SqlDatabase,
  request: BeginRequest,
  begin: () => Promise<BeginReply>,
): Promise<BeginReply> {
  const isolated: TaskRef[] = [];
  for (let round = 1; ; round++) {
    try {
      const reply = await begin();
      if (reply.status === 'closed' || isolated.length === 0) return reply;
      return { ...reply, unreadable: isolated };
    } catch (error) {
      if (!isOfARow(error)) throw error;
      const found = await isolateTasks(db, request);
      isolated.push(...found);
      if (found.length === 0 || round === MOST_ROUNDS) throw error;
    }
  }
}

const isOfARow = (error: unknown): boolean =>
  !isUnavailable(error) && OF_A_ROW.test(sqlStateOf(error) ?? '');

/** Reads each task alone that a `begin` may have met: the unreadable one is the cause. */
async function isolateTasks(
  db: SqlDatabase,
  { queues, limit, worker }: BeginRequest,
): Promise<readonly TaskRef[]> {
  const isolated: TaskRef[] = [];
  for (const row of await db.query(SQL.beginHeads, [queues, Math.max(1, limit)])) {
    const id = row['id'] as string;
    const error = await refusalOf(db, id, worker);
    if (error !== null) isolated.push(...(await isolate(db, id, error)));
  }
  return isolated;
}

async function refusalOf(db: SqlDatabase, id: string, worker: string): Promise<Error | null> {
  try {
    await db.query(SQL.beginProbe, [id, worker]);
    return null;
  } catch (error) {
    if (!isOfARow(error)) throw error;
    return error as Error;
  }
}

async function isolate(db: SqlDatabase, id: string, cause: Error): Promise<readonly TaskRef[]> {
  const message = `its row cannot be read: ${cause.message}`;
  const error = { type: 'ERR_UNDECODABLE', message, traceback: '' };
  try {
    const rows = await db.query(SQL.isolateTask, [id, toBytes(JSON.stringify(error))]);
    return rows.map(readTaskRef);
  } catch (failure) {
    if (!isOfARow(failure)) throw failure;
    // So damaged that it cannot even be ended.
    return (await db.query(SQL.putOffTask, [id])).map(readTaskRef);
  }
}

const readTaskRef = (row: Readonly<Record<string, unknown>>): TaskRef => ({
  id: row['id'] as string,
  name: row['name'] as string,
  queue: row['queue'] as string,
});

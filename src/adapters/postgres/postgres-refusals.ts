import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import type { BeginRequest, RefusalLog, StepStatus } from '../../ledger/ledger.ts';
import { encodeError, readEnvelope } from './postgres-rows.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** A worker that meets tasks it cannot run sets aside this many at once: about a tenth of a second of the store's time. */
const SET_ASIDE_AT_ONCE = 5_000;

/** Names and versions of the tasks a worker can run; null: everything. */
export function runnableColumns({
  runnable,
}: BeginRequest): readonly [names: readonly string[], versions: readonly number[]] | null {
  return runnable === undefined ? null : [Object.keys(runnable), Object.values(runnable)];
}

/** Sets aside tasks at the heads of the queues that this worker cannot run, and wakes workers that may. */
export async function setAside(db: SqlDatabase, request: BeginRequest): Promise<void> {
  const able = runnableColumns(request);
  if (able === null) return;
  await db.query(SQL.setAside, [request.worker, request.queues, ...able, SET_ASIDE_AT_ONCE]);
}

export function postgresRefusals(db: SqlDatabase): RefusalLog {
  return {
    list: async (limit, after = '') => {
      const [, mark = '', id = ''] = /^(\d+) (.*)$/s.exec(after) ?? [];
      const rows = await db.query(SQL.refusedList, [limit, BATCH_BYTES, mark, id]);
      const tasks = rows.map(row => ({
        envelope: readEnvelope(row),
        waitedMs: Number(row['waited_ms']),
        worker: (row['refused_by'] as string | null) ?? '',
        isBegun: row['is_begun'] as boolean,
        mark: row['mark'] as string,
      }));
      // Fewer than requested, and not cut because of their bytes: there are no more.
      const listed = Number(rows[0]?.['listed'] ?? 0);
      const last = listed < limit && listed === tasks.length ? undefined : tasks.at(-1);
      return { tasks, next: last === undefined ? null : `${last.mark} ${last.envelope.id}` };
    },
    bury: async (id, error) => {
      const [row] = await db.query(SQL.refusedBury, [id, encodeError(error)]);
      return row?.['status'] as StepStatus;
    },
    handBack: async (id, mark) => {
      const [row] = await db.query(SQL.refusedHandBack, [id, mark]);
      return row?.['status'] as StepStatus;
    },
  };
}

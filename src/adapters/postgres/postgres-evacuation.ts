import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import type { EvacuatedTask, Evacuation } from '../../ledger/evacuation.ts';
import type { StepStatus } from '../../ledger/ledger.ts';
import { decodeError, readEnvelope } from './postgres-rows.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** The way out of a ledger in PostgreSQL. */
export function postgresEvacuation(db: SqlDatabase): Evacuation {
  return {
    list: async limit => (await db.query(SQL.evacuateList, [limit, BATCH_BYTES])).map(readTask),
    end: async (id, epoch) => {
      const [row] = await db.query(SQL.evacuateEnd, [id, epoch]);
      return row?.['status'] as StepStatus;
    },
  };
}

function readTask(row: SqlRow): EvacuatedTask {
  const reason = row['reason'] as string | null;
  const error = decodeError(row['error'] as Uint8Array | null);
  return {
    envelope: readEnvelope(row),
    epoch: Number(row['epoch']),
    dueInMs: Number(row['due_in_ms']),
    death:
      reason === null
        ? null
        : { reason, error: error ?? { type: reason, message: reason, traceback: '' } },
  };
}

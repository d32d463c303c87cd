import {
  type DeadLetterPage,
  type DeadLetterSummary,
  type HistoryEntry,
  type LetterPageRequest,
  cursorAfter,
  readCursor,
} from '../../ledger/dead-letter.ts';
import type { PurgeReply, PurgeRequest } from '../../outbox/outbox-store.ts';
import { likePattern } from '../../task/glob.ts';
import { toText } from '../../task/json.ts';
import type { SqlDatabase, SqlParam, SqlRow } from '../sql/sql-database.ts';
import { outlastError } from '../../errors/error.ts';
import type { ParkItem } from '../../ledger/ledger.ts';
import { taskColumns } from './postgres-rows.ts';
import { SQL } from './sql.generated.ts';

/** How long the tombstone of a cancelled or purged task turns away its copies. */
export const WITHDRAWN_KEEP_MS = 86_400_000;

/** The parameters every list of letters begins with; one more row than requested shows whether there is a next page. */
export function letterParams({ cursor, taskName, limit }: LetterPageRequest): SqlParam[] {
  const place = cursor === null ? null : readCursor(cursor);
  return [place?.deadAt ?? null, place?.id ?? null, likePattern(taskName), limit + 1];
}

export function letterPage(
  rows: readonly SqlRow[],
  limit: number,
  read: (row: SqlRow) => DeadLetterSummary,
): DeadLetterPage {
  const items = rows.slice(0, limit).map(read);
  const last = items.at(-1);
  return { items, next: rows.length > limit && last ? cursorAfter(last) : null };
}

export function purgeParams(request: PurgeRequest): SqlParam[] {
  const { olderThanDeadMs, olderThanCreatedMs, taskName } = request;
  return [olderThanDeadMs, olderThanCreatedMs, likePattern(taskName)];
}

export function purgeReply(rows: readonly SqlRow[]): PurgeReply {
  return {
    counts: rows.map(row => ({ name: row['name'] as string, count: Number(row['count']) })),
  };
}

export function readHistory(bytes: Uint8Array): readonly HistoryEntry[] {
  const lines = toText(bytes)
    .split('\n')
    .filter(line => line !== '');
  return lines.map(line => JSON.parse(line) as HistoryEntry);
}

/** Another session that inserts the same id has ended when our statement has: the second look sees its row. */
const MAX_LOOKS = 5;

/** Takes custody of messages: when it returns, every one of them is in the ledger, as itself, as a copy or as a dead letter. */
export async function park(db: SqlDatabase, items: readonly ParkItem[]): Promise<void> {
  let missing = items;
  for (let look = 0; missing.length > 0; look++) {
    if (look === MAX_LOOKS) throw contended(missing);
    const delays = missing.map(({ delayMs }) => (delayMs === null ? null : Math.round(delayMs)));
    const columns = taskColumns(missing.map(({ envelope }) => envelope));
    const refusers = missing.map(({ refusedBy }) => refusedBy ?? null);
    const rows = await db.query(SQL.park, [...columns, delays, refusers]);
    // By id and bytes: of two messages of one batch with the same id the second is resolved at the next look.
    const accounted = new Set(rows.map(row => `${String(row['id'])} ${String(row['digest'])}`));
    missing = missing.filter(({ envelope: { id, digest } }) => !accounted.has(`${id} ${digest}`));
  }
}

function contended(missing: readonly ParkItem[]): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `${missing.length} tasks are being written by others under the same ids`,
    hint: 'Try again.',
    fields: {},
  });
}

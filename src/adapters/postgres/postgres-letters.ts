import { cursorAfter, readCursor } from '../../ledger/dead-letter.ts';
import type {
  DeadLetterPage,
  DeadLetterSummary,
  HistoryEntry,
  LetterPageRequest,
} from '../../ledger/dead-letter.ts';
import type { PurgeReply, PurgeRequest } from '../../outbox/outbox-store.ts';
import { likePattern } from '../../task/glob.ts';
import { toText } from '../../task/json.ts';
import type { SqlParam, SqlRow } from '../sql/sql-database.ts';

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

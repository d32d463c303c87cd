import type { RedisConnection } from './redis-connection.ts';
import { readRecord, type StoredRecord } from './redis-record.ts';

/** A dead task, with its key root. */
export interface DeadTask {
  readonly id: string;
  readonly root: string;
  readonly record: StoredRecord;
}

export interface DeadWalk {
  readonly order: 'newest' | 'oldest';
  /** Where to start, by time of death; null: at the first end. */
  readonly fromMs: number | null;
  /** Deaths from this time on are left out; null: none. */
  readonly beforeMs: number | null;
}

/** Records per read. */
const PAGE = 200;

/** The dead tasks under one root, ordered by time of death, then id. */
export async function* walkDead(
  connection: RedisConnection,
  root: string,
  walk: DeadWalk,
): AsyncGenerator<DeadTask, void, undefined> {
  const isNewest = walk.order === 'newest';
  const lowest = !isNewest && walk.fromMs !== null ? String(walk.fromMs) : '-inf';
  const from = isNewest && walk.fromMs !== null ? String(walk.fromMs) : '+inf';
  const highest = walk.beforeMs === null ? from : `(${walk.beforeMs}`;
  const bounds = isNewest ? [highest, lowest, 'BYSCORE', 'REV'] : [lowest, highest, 'BYSCORE'];
  for (let at = 0; ; at += PAGE) {
    const range = [`${root}dead`, ...bounds, 'LIMIT', at, PAGE];
    const ids = ((await connection.command('zrange', ...range)) as readonly Buffer[]).map(String);
    if (ids.length === 0) return;
    const raws = await connection.command('mget', ...ids.map(id => `${root}t:${id}`));
    for (const [index, raw] of (raws as readonly (Buffer | null)[]).entries()) {
      const record = raw === null ? null : readRecord(raw);
      // It may have been revived or purged since the list was read.
      if (record?.state === 'dead') yield { id: ids[index] ?? '', root, record };
    }
    if (ids.length < PAGE) return;
  }
}

import type { RedisConnection } from './redis-connection.ts';
import { readRecord, type StoredRecord } from './redis-record.ts';

/**
 * The roots under which tasks are, the one with all incarnations first. On a cluster there is one for each queue, and the
 * list may be a second old unless it is to be fresh.
 */
export type RootsOf = (isFresh?: boolean) => Promise<readonly string[]>;

export interface FoundRecord {
  readonly root: string;
  readonly record: StoredRecord;
}

/** Looks for a task by its id alone, wherever it is. */
export async function findRecord(
  connection: RedisConnection,
  roots: readonly string[],
  id: string,
): Promise<FoundRecord | null> {
  const raws = await Promise.all(
    roots.map(async root => (await connection.command('get', `${root}t:${id}`)) as Buffer | null),
  );
  const found = raws.flatMap((raw, index) =>
    raw === null ? [] : [{ root: roots[index] ?? '', record: readRecord(raw) }],
  );
  return mostTelling(found, ({ record }) => record);
}

/** A task that was cancelled before it came has a tombstone under every root, which says less than any other record. */
export function mostTelling<T>(found: readonly T[], recordOf: (one: T) => StoredRecord): T | null {
  return found.find(one => recordOf(one).digest !== '') ?? found[0] ?? null;
}

import type { RedisConnection } from './redis-connection.ts';
import { readRecord, type StoredRecord } from './redis-record.ts';

/**
 * The key roots of tasks; the first one has all incarnations. On a cluster there is one per queue, and the list may be a
 * second old unless `isFresh` is set.
 */
export type RootsOf = (isFresh?: boolean) => Promise<readonly string[]>;

export interface FoundRecord {
  readonly root: string;
  readonly record: StoredRecord;
}

/** Finds a task by its id alone, under any root. */
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
  return mostInformative(found, ({ record }) => record);
}

/** A task cancelled before it arrived has a tombstone under every root; any other record takes precedence. */
export function mostInformative<T>(
  found: readonly T[],
  recordOf: (one: T) => StoredRecord,
): T | null {
  return found.find(one => recordOf(one).digest !== '') ?? found[0] ?? null;
}

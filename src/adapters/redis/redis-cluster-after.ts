import type { AfterEntry, AfterLog, Ledger } from '../../ledger/ledger.ts';

type Part = Pick<Ledger, 'after'>;

/**
 * The follow-ups of all queues. They are read in turn, each time starting with another one: a queue with more than the
 * workers can carry out does not starve the others, and no more is read than requested.
 */
export function clusterAfterLog(allParts: () => Promise<readonly Part[]>): AfterLog {
  let first = 0;
  /** Where the entries of the last list are: the caller that listed them reports their outcome. */
  let partOf = new Map<string, Part>();

  /** Calls each part with its own entries; unlisted ones may be in any part. */
  async function each<T>(
    items: readonly T[],
    keyOf: (item: T) => string,
    call: (part: Part, items: readonly T[]) => Promise<void>,
  ): Promise<void> {
    const byPart = new Map<Part, T[]>();
    const unknown: T[] = [];
    for (const item of items) {
      const part = partOf.get(keyOf(item));
      if (part === undefined) unknown.push(item);
      else {
        const same = byPart.get(part);
        if (same) same.push(item);
        else byPart.set(part, [item]);
      }
    }
    const everywhere = unknown.length === 0 ? [] : await allParts();
    await Promise.all([
      ...[...byPart].map(([part, some]) => call(part, some)),
      ...everywhere.map(part => call(part, unknown)),
    ]);
  }

  return {
    list: async (olderThanMs, limit) => {
      const parts = await allParts();
      const from = parts.length === 0 ? 0 : first++ % parts.length;
      const found: AfterEntry[] = [];
      partOf = new Map();
      for (const part of [...parts.slice(from), ...parts.slice(0, from)]) {
        if (found.length >= limit) break;
        const some = await part.after.list(olderThanMs, limit - found.length);
        for (const { key } of some) partOf.set(key, part);
        found.push(...some);
      }
      return found;
    },
    strike: keys =>
      each(
        keys,
        key => key,
        (part, some) => part.after.strike(some),
      ),
    defer: entries =>
      each(
        entries,
        ({ key }) => key,
        (part, some) => part.after.defer(some),
      ),
  };
}

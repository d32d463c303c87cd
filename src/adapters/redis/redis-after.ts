import { AFTER_LIST_BYTES } from '../../ledger/batch-limits.ts';
import type {
  AfterEntry,
  AfterLog,
  ChordPartEntry,
  EndedTask,
  FollowUp,
  Ledger,
  ReplyEntry,
} from '../../ledger/ledger.ts';
import { readEntry } from '../../ledger/read-entry.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { Rank } from './redis-keys.ts';
import { type Unpacked, pack, unpack } from './redis-pack.ts';
import { envelopeOfParts, messageParts } from './redis-record.ts';

/** The follow-ups of terminal steps under one key root. */
export function redisAfterLog(connection: RedisConnection, root: string, rank: Rank): AfterLog {
  return {
    list: async (olderThanMs, limit) => {
      const args = [olderThanMs, limit, AFTER_LIST_BYTES];
      const reply = await connection.script(LUA.ledgerAfterList, [root], args);
      const { entries, empty } = readEntries(reply as readonly Buffer[], rank);
      // A key without an entry would stay at the head of the list forever.
      if (empty.length > 0) await connection.script(LUA.ledgerAfterStrike, [root], empty);
      return entries;
    },
    strike: async keys => {
      for (const some of chunked(keys))
        await connection.script(LUA.ledgerAfterStrike, [root], some);
    },
    defer: async deferred => {
      for (const some of chunked(deferred)) {
        const args = some.flatMap(({ key, delayMs, isAttempt }) => [
          key,
          Math.round(delayMs),
          isAttempt ? 1 : 0,
        ]);
        await connection.script(LUA.ledgerAfterDefer, [root], args);
      }
    },
  };
}

/** Keys per script call. */
const MOST_KEYS = 1_000;

function* chunked<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += MOST_KEYS) yield items.slice(at, at + MOST_KEYS);
}

/** An entry as separate bytes: it outlives the record it came from. Scripts write another kind, for tasks that ended. */
export function encodeAfter(entry: FollowUp, rank: Rank): Uint8Array {
  if ('publish' in entry) return pack(['publish', messageParts(entry.publish, rank)]);
  if ('reply' in entry) return pack(['reply', JSON.stringify(entry.reply)]);
  const { part, body, parent } = entry;
  return pack(['part', JSON.stringify({ part, body, parent })]);
}

function decodeAfter(key: string, bytes: Buffer, rank: Rank): AfterEntry {
  const [kind, ...rest] = unpack(bytes) as readonly [Buffer, ...Unpacked[]];
  switch (String(kind)) {
    case 'part':
      return { key, ...(JSON.parse(String(rest[0])) as Omit<ChordPartEntry, 'key'>) };
    case 'reply':
      return { key, reply: JSON.parse(String(rest[0])) as ReplyEntry['reply'] };
    case 'ended': {
      const [how, epoch, parts] = rest as [Buffer, number, Unpacked];
      const ended = { how: String(how) as EndedTask['how'], epoch };
      return { key, ended: { ...ended, envelope: envelopeOfParts(parts, rank) } };
    }
    default:
      return { key, publish: envelopeOfParts(rest[0] as Unpacked, rank) };
  }
}

function readEntries(
  reply: readonly Buffer[],
  rank: Rank,
): {
  readonly entries: readonly AfterEntry[];
  readonly empty: readonly string[];
} {
  const entries: AfterEntry[] = [];
  const empty: string[] = [];
  for (let at = 0; at + 2 < reply.length; at += 3) {
    const [key, attempts, bytes] = [String(reply[at]), Number(reply[at + 1]), reply[at + 2]];
    if (bytes === undefined || bytes.length === 0) {
      empty.push(key);
      continue;
    }
    const entry = readEntry(key, bytes, () => decodeAfter(key, bytes, rank));
    entries.push(attempts === 0 ? entry : { ...entry, attempts });
  }
  return { entries, empty };
}

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

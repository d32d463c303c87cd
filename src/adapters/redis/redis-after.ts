import { AFTER_LIST_BYTES } from '../../ledger/batch-limits.ts';
import type {
  AfterEntry,
  AfterLog,
  ChordPartEntry,
  EndedTask,
  FollowUp,
  ReplyEntry,
} from '../../ledger/ledger.ts';
import { readEntry } from '../../ledger/read-entry.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { Rank } from './redis-keys.ts';
import { pack, unpack, type Unpacked } from './redis-pack.ts';
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

import type {
  AfterEntry,
  AfterLog,
  ChordPartEntry,
  EndedTask,
  FollowUp,
  ReplyEntry,
} from '../../ledger/ledger.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { pack, unpack, type Unpacked } from './redis-pack.ts';
import { envelopeOfParts, messageParts } from './redis-record.ts';

/** What must follow a terminal step but lives elsewhere, as far as one root of keys goes. */
export function redisAfterLog(connection: RedisConnection, root: string): AfterLog {
  return {
    list: async (olderThanMs, limit) => {
      const reply = await connection.script(LUA.ledgerAfterList, [root], [olderThanMs, limit]);
      return readEntries(reply as readonly Buffer[]);
    },
    strike: async keys => {
      if (keys.length > 0) await connection.script(LUA.ledgerAfterStrike, [root], keys);
    },
  };
}

/** An entry as bytes of its own: it outlives the record it came from. Scripts write another kind, of tasks that ended. */
export function encodeAfter(entry: FollowUp): Uint8Array {
  if ('publish' in entry) return pack(['publish', messageParts(entry.publish)]);
  if ('reply' in entry) return pack(['reply', JSON.stringify(entry.reply)]);
  const { part, body, parent } = entry;
  return pack(['part', JSON.stringify({ part, body, parent })]);
}

function decodeAfter(key: string, bytes: Buffer): AfterEntry {
  const [kind, ...rest] = unpack(bytes) as readonly [Buffer, ...Unpacked[]];
  switch (String(kind)) {
    case 'part':
      return { key, ...(JSON.parse(String(rest[0])) as Omit<ChordPartEntry, 'key'>) };
    case 'reply':
      return { key, reply: JSON.parse(String(rest[0])) as ReplyEntry['reply'] };
    case 'ended': {
      const [how, epoch, parts] = rest as [Buffer, number, Unpacked];
      const ended = { how: String(how) as EndedTask['how'], epoch };
      return { key, ended: { ...ended, envelope: envelopeOfParts(parts) } };
    }
    default:
      return { key, publish: envelopeOfParts(rest[0] as Unpacked) };
  }
}

function readEntries(reply: readonly Buffer[]): AfterEntry[] {
  const entries: AfterEntry[] = [];
  for (let at = 0; at + 1 < reply.length; at += 2) {
    entries.push(decodeAfter(String(reply[at]), reply[at + 1] as Buffer));
  }
  return entries;
}

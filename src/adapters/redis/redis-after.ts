import type { AfterEntry, AfterLog } from '../../ledger/ledger.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { pack, unpack } from './redis-pack.ts';
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

/** An entry as bytes of its own: it outlives the record it came from. */
export function encodeAfter({ publish }: AfterEntry): Uint8Array {
  return pack(messageParts(publish));
}

function readEntries(reply: readonly Buffer[]): AfterEntry[] {
  const entries: AfterEntry[] = [];
  for (let at = 0; at + 1 < reply.length; at += 2) {
    const publish = envelopeOfParts(unpack(reply[at + 1] as Buffer));
    entries.push({ key: String(reply[at]), publish });
  }
  return entries;
}

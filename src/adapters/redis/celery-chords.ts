import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { RedisChords } from './redis-chords.ts';
import { RedisConnection } from './redis-connection.ts';

/** Chords in the Redis of Celery's results, beside a ledger that is elsewhere. */
export interface CeleryChords {
  readonly join: (part: ChordPart) => Promise<ChordAnswer>;
  readonly close: () => Promise<void>;
}

const ROOT = 'outlast:celery-chords';

/** It connects when it is first asked for something. */
export async function openCeleryChords(url: string): Promise<CeleryChords> {
  const name = `outlast-chords-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'ledger', name });
  const chords = new RedisChords(connection, {
    index: ROOT,
    keyOf: groupId => `${ROOT}:${groupId}`,
    celeryResultMs: 1,
  });
  return {
    join: part => chords.join(part),
    close: async () => connection.close(),
  };
}

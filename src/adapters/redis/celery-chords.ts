import type { CeleryChords } from '../../ledger/ledger.ts';
import { membersOf } from '../../task/json-slices.ts';
import { LUA } from './lua.generated.ts';
import { RedisChords } from './redis-chords.ts';
import { RedisConnection } from './redis-connection.ts';
import { redisTeller } from './redis-tell.ts';

/** Chords in the Redis of Celery's results, beside a ledger that is elsewhere. */
export interface OpenCeleryChords extends CeleryChords {
  readonly close: () => Promise<void>;
}

const ROOT = 'outlast:celery-chords';
/** As long as Celery keeps results by default. */
const RESULT_MS = 86_400_000;

/** It connects when it is first asked for something. */
export async function openCeleryChords(url: string): Promise<OpenCeleryChords> {
  const name = `outlast-chords-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'ledger', name });
  const chords = new RedisChords(connection, {
    index: ROOT,
    keyOf: groupId => `${ROOT}:${groupId}`,
    celeryResultMs: RESULT_MS,
  });
  return {
    join: part => chords.join(part),
    tell: redisTeller(connection, `${ROOT}:`, RESULT_MS),
    store: async replies => {
      for (const { body } of replies) {
        const id = String(JSON.parse(membersOf(body).get('task_id') ?? '""'));
        const keys = [`celery-task-meta-${id}`];
        await connection.script(LUA.celeryStore, keys, [body, RESULT_MS]);
      }
    },
    close: async () => connection.close(),
  };
}

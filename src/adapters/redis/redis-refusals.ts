import type { BeginRequest, RefusalLog } from '../../ledger/ledger.ts';
import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import { LUA } from './lua.generated.ts';
import type { CommitManner } from './redis-commit.ts';
import type { RedisArgument, RedisConnection } from './redis-connection.ts';
import { withIsolation } from './redis-batch.ts';
import { pack } from './redis-pack.ts';
import { encodeError, envelopeOf, readRecord } from './redis-record.ts';
import { statusOf } from './redis-replies.ts';

/** What a worker can run, in the scripts' format; empty: everything. */
export function packRunnable({ runnable }: BeginRequest): RedisArgument {
  return runnable === undefined ? '' : pack(new Map(Object.entries(runnable)));
}

type AsideParts = readonly [
  id: Buffer,
  record: Buffer,
  body: Buffer | null,
  waited: number,
  worker: Buffer,
  mark: Buffer,
];

type AsidePage = readonly [
  last: readonly [score: Buffer, id: Buffer] | null,
  tasks: readonly AsideParts[],
];

/** Tasks that were set aside, under one key root. */
export function redisRefusals(
  connection: RedisConnection,
  root: string,
  { celeryResultMs, rank }: CommitManner,
): RefusalLog {
  const end = async (id: string, error: RedisArgument, mark: string) => {
    const args = [id, error, celeryResultMs, mark];
    const step = (): Promise<unknown> => connection.script(LUA.ledgerAsideEnd, [root], args);
    return statusOf(await withIsolation(connection, root, { ids: [id] }, step));
  };
  return {
    list: async (limit, after = '') => {
      const [, score = '', afterId = ''] = /^(\d+) (.*)$/s.exec(after) ?? [];
      const args = [limit, BATCH_BYTES, score, afterId];
      const step = (): Promise<unknown> => connection.script(LUA.ledgerAsideList, [root], args);
      const [last, listed] = (await withIsolation(connection, root, {}, step)) as AsidePage;
      const tasks = listed.map(([id, raw, body, waitedMs, worker, mark]) => {
        const record = readRecord(raw);
        const own = body === null ? null : new Uint8Array(body);
        const envelope = envelopeOf(String(id), record, own, rank);
        const isBegun = record.epoch > 0;
        return { envelope, waitedMs, worker: String(worker), isBegun, mark: String(mark) };
      });
      return { tasks, next: last ? last.map(String).join(' ') : null };
    },
    bury: (id, error) => end(id, encodeError(error), ''),
    handBack: (id, mark) => end(id, '', mark),
  };
}

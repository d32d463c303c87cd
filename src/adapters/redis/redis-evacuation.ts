import type { EvacuatedTask, Evacuation } from '../../ledger/evacuation.ts';
import type { StepStatus } from '../../ledger/ledger.ts';
import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { RootsOf } from './redis-find.ts';
import type { Rank } from './redis-keys.ts';
import { withIsolation } from './redis-batch.ts';
import { envelopeOf, readRecord } from './redis-record.ts';
import { better, statusOf } from './redis-replies.ts';

type Listed = readonly [id: Buffer, record: Buffer, body: Buffer | null, dueInMs: number];

/** Evacuates a ledger in Redis, on a server or a cluster. */
export function redisEvacuation(
  connection: RedisConnection,
  roots: RootsOf,
  rank: Rank,
): Evacuation {
  return {
    list: async limit => {
      const lists = (await roots(true)).map(async root => {
        const args = [limit, BATCH_BYTES];
        const step = (): Promise<unknown> =>
          connection.script(LUA.ledgerEvacuateList, [root], args);
        const reply = await withIsolation(connection, root, {}, step);
        return (reply as readonly Listed[]).map(listed => readTask(listed, rank));
      });
      return (await Promise.all(lists)).flat().slice(0, limit);
    },
    end: async (id, epoch) => {
      const ends = (await roots()).map(async root =>
        statusOf(await connection.script(LUA.ledgerEvacuateEnd, [root], [id, epoch])),
      );
      return (await Promise.all(ends)).reduce(better, 'absent' as StepStatus);
    },
  };
}

function readTask([id, raw, body, dueInMs]: Listed, rank: Rank): EvacuatedTask {
  const record = readRecord(raw);
  const { epoch, state, why, error } = record;
  const own = body === null ? null : new Uint8Array(body);
  const unsaid = { type: why, message: why, traceback: '' };
  return {
    envelope: envelopeOf(String(id), record, own, rank),
    epoch,
    dueInMs,
    death: state === 'dead' ? { reason: why, error: error ?? unsaid } : null,
  };
}

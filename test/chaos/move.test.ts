import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, startResurrector, startWorker, task, unchecked } from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import type { FaultPointName } from '../../src/runtime/runtime.ts';
import { openContext } from '../../src/context/context.ts';
import type { Stores } from '../../src/context/stores.ts';
import { ids, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startRedisCluster, type OwnCluster } from '../support/redis-cluster.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { isLong } from '../support/selection.ts';
import { pushDemand } from '../support/rabbit-broker.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { faultEnv } from '../support/fault-env.ts';

let database: MigratedDatabase;
let redis: OwnRedis;
let cluster: OwnCluster;
const folder = mkdtempSync(join(tmpdir(), 'outlast-move-'));
let faults = 0;

beforeAll(async () => {
  [database, redis, cluster] = await Promise.all([
    migratedDatabase('move_chaos'),
    startRedis([]),
    startRedisCluster(),
  ]);
});

afterAll(async () => {
  await redis.dispose();
  await cluster.dispose();
  await database.dispose();
  rmSync(folder, { recursive: true, force: true });
});

function arm(point: FaultPointName, action: 'kill' | 'stop') {
  const file = join(folder, `hit-${++faults}`);
  const env = faultEnv(`${point}:${action}:1:${file}`);
  return { env, hasHit: () => existsSync(file) };
}

async function open(tier: { readonly broker?: string }): Promise<Stores> {
  const context = openContext({ database: database.url, ...tier }, { env: {} });
  onTestFinished(() => context.close());
  return await context.stores();
}

interface Leaving {
  readonly from: string;
  readonly point: FaultPointName;
  /** The old broker; null: it was the database alone, and is Redis now. */
  readonly broker: () => string | null;
}

const RABBIT = { from: 'RabbitMQ', broker: () => rabbitmqUrl() };
const ALONE = { from: 'PostgreSQL', broker: () => null };
const CLUSTER = { from: 'a Redis Cluster', broker: () => cluster.url };

const MESSAGES_IN: Leaving = { ...RABBIT, point: 'move.messages-in-not-acked' };
const MID_END: Leaving = { ...ALONE, point: 'move.mid-end' };
const EMPTIED: Leaving = { ...CLUSTER, point: 'move.emptied-not-forgotten' };
/** Each gap, on one store; the others have the same gap. */
const LEAVING: readonly Leaving[] = [
  MESSAGES_IN,
  MID_END,
  EMPTIED,
  { ...CLUSTER, point: 'move.tasks-in-not-ended' },
];
const MORE: readonly Leaving[] = [
  { from: 'Redis', broker: () => redis.url, point: 'move.messages-in-not-acked' },
  { ...ALONE, point: 'move.tasks-in-not-ended' },
];

/** Tasks in the store that is left, and the command that moves them. */
async function leave({ broker, point }: Leaving) {
  const queue = unique('queue');
  const old = broker();
  const stores = await open(old === null ? {} : { broker: old });
  const envelopes = makeEnvelopes(4, { queue });
  if (point === 'move.messages-in-not-acked') await stores.broker.publish(envelopes);
  else await stores.ledger.park(envelopes.map(envelope => ({ envelope, delayMs: 0 })));
  const project = new CliProject({
    'outlast.config.mjs': `export default { worker: { queues: ['${queue}'] } };`,
  });
  onTestFinished(() => project.dispose());
  const env = {
    OUTLAST_DATABASE_URL: database.url,
    ...(old === null ? { OUTLAST_BROKER_URL: redis.url } : {}),
  };
  const args = ['move', ...(old === null ? [] : ['--from-broker', old])];
  const moved = async (): Promise<string[]> => {
    const text = 'select task_id from outlast_outbox where queue = $1';
    const { rows } = await database.pool.query<{ task_id: string }>(text, [queue]);
    return rows.map(row => row.task_id).toSorted();
  };
  stores.broker.pushWithin?.(pushDemand(10));
  const left = async (): Promise<number> => {
    const known = (await stores.ledgerReads.states(ids(envelopes))).filter(one => one !== null);
    const held = broker() === null ? [] : await stores.broker.take([queue], 10);
    return known.length + held.length;
  };
  const start = (more: Readonly<Record<string, string>> = {}) =>
    project.start(args, { ...env, ...more });
  return { start, moved, left, expected: ids(envelopes).toSorted() };
}

describe('a move', () => {
  it.each(isLong ? [...LEAVING, ...MORE] : LEAVING)(
    'out of $from, killed at $point and repeated, loses nothing',
    async leaving => {
      const { start, moved, left, expected } = await leave(leaving);
      const fault = arm(leaving.point, 'kill');
      expect(await start(fault.env).ended).toMatchObject({ signal: 'SIGKILL' });
      expect(fault.hasHit()).toBe(true);
      // Meanwhile one of them has been relayed, and has run.
      const [relayed = '', ...rest] = expected;
      await database.pool.query('delete from outlast_outbox where task_id = $1', [relayed]);
      expect(await start().ended).toMatchObject({ code: 0 });
      expect(await moved()).toEqual(rest);
      expect(await left()).toBe(0);
    },
  );

  it.each(isLong ? [MESSAGES_IN, EMPTIED, MID_END, ...MORE] : [MESSAGES_IN, EMPTIED])(
    'out of $from, asleep at $point, takes nothing twice when it wakes after another move',
    async leaving => {
      const { start, moved, expected } = await leave(leaving);
      const fault = arm(leaving.point, 'stop');
      const asleep = start(fault.env);
      await until(async () => fault.hasHit());
      expect(await start().ended).toMatchObject({ code: 0 });
      asleep.signal('SIGCONT');
      expect(await asleep.ended).toMatchObject({ code: 0 });
      expect(await moved()).toEqual(expected);
    },
  );
});

describe('handing a refused task back to the broker', () => {
  it.each(['kill', 'stop'] as const)(
    'with a %s between broker and ledger runs the task once',
    async action => {
      const queue = unique('queue');
      const loose = { args: unchecked<unknown[]>(), kwargs: unchecked<object>() };
      const job = task(unique('job'), { queue, ...loose });
      const broker = rabbitmqUrl();
      const { ledger, ledgerReads } = await open({ broker });
      const envelope = makeEnvelope({ queue, name: job.name });
      await ledger.park([{ envelope, delayMs: 0, refusedBy: 'other' }]);
      const project = new CliProject({ 'outlast.config.mjs': 'export default {};' });
      onTestFinished(() => project.dispose());
      const fault = arm('refusals.published-not-handed-back', action);
      const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: broker };
      const dying = project.start(['resurrector'], { ...env, ...fault.env });
      await until(async () => fault.hasHit());
      const outlast = createOutlast({ database: database.url, broker });
      onTestFinished(() => outlast.close());
      const ran: string[] = [];
      const handler = outlast.handler(job, (_, { id }) => void ran.push(id));
      const services = [
        await startResurrector(outlast, { interval: '100ms' }),
        await startWorker(outlast, { tasks: [handler], queues: [queue] }),
      ];
      onTestFinished(async () => void (await Promise.all(services.map(one => one.stop()))));
      await until(async () => (await ledgerReads.states([envelope.id]))[0] === 'done');
      if (action === 'stop') {
        dying.signal('SIGCONT');
        dying.signal('SIGTERM');
      }
      expect((await dying.ended).signal).toBe(action === 'kill' ? 'SIGKILL' : null);
      expect(ran).toEqual([envelope.id]);
      expect((await createAdmin(outlast).deadLetters.list()).items).toEqual([]);
    },
  );
});

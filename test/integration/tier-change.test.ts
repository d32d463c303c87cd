import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type Outlast,
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
} from '../../dist/index.js';
import { type MoveParts, moveTier } from '../../src/admin/move-tier.ts';
import { resolveConfig } from '../../src/config/config.ts';
import { noFaults, systemClock } from '../../src/runtime/runtime.ts';
import { openContext } from '../../src/context/context.ts';
import { checkTiers } from '../../src/context/tier-memory.ts';
import { takesTasks } from '../../src/ledger/tier-store.ts';
import type { Stores } from '../../src/context/stores.ts';
import { ids, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { sampleError } from '../conformance/ledger-driver.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { type MigratedDatabase, migratedDatabase, until } from '../support/database.ts';
import { type OwnRedis, startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';

let database: MigratedDatabase;
let redis: OwnRedis;

beforeAll(async () => {
  database = await migratedDatabase('tier_change');
  await database.pool.query('create table charge (order_id text)');
  redis = await startRedis([]);
});

afterAll(async () => {
  await redis.dispose();
  await database.dispose();
});

interface Tier {
  readonly broker?: string;
  readonly ledger?: string;
}

const TIERS: readonly (() => Tier)[] = [
  () => ({}),
  () => ({ broker: rabbitmqUrl() }),
  () => ({ broker: rabbitmqUrl(), ledger: redis.url }),
  () => ({ broker: redis.url }),
  () => ({}),
];

describe('an idempotent task that is sent again after a tier change', () => {
  it('has its effect in ctx.transaction once', async () => {
    const queue = unique('queue');
    const charge = task(unique('charge'), {
      queue,
      input: unchecked<string>(),
      result: unchecked<string>(),
      idempotent: { key: (order: string) => order, ttl: '1h' },
    });
    const results: string[] = [];
    for (const tier of TIERS) {
      const outlast = createOutlast({ database: database.url, ...tier() });
      const handler = outlast.handler(charge, async (order, ctx) =>
        ctx.transaction(async tx => {
          await tx.query('insert into charge values ($1)', [order]);
          return `charged ${order}`;
        }),
      );
      await serving(outlast, queue, [handler], async () => {
        const sent = await outlast.push(charge, 'order-17');
        results.push(await sent.result());
      });
    }
    expect(results).toEqual(TIERS.map(() => 'charged order-17'));
    expect((await database.pool.query('select * from charge')).rowCount).toBe(1);
  });
});

async function serving(
  outlast: Outlast,
  queue: string,
  tasks: Parameters<typeof startWorker>[1]['tasks'],
  fn: () => Promise<void>,
): Promise<void> {
  onTestFinished(() => outlast.close());
  const services = [
    await startRelay(outlast),
    await startWorker(outlast, { tasks, queues: [queue] }),
  ];
  try {
    await fn();
  } finally {
    await Promise.all(services.map(service => service.stop()));
  }
}

/** The stores of a tier, as a command opens them. */
async function open(tier: Tier): Promise<Stores> {
  const context = openContext({ database: database.url, ...tier }, { env: {} });
  onTestFinished(() => context.close());
  return await context.stores();
}

describe('a tier change', () => {
  interface Doctor {
    readonly checks: readonly object[];
  }
  const environment = ({ broker, ledger }: Tier) => ({
    OUTLAST_DATABASE_URL: database.url,
    OUTLAST_BROKER_URL: broker,
    OUTLAST_LEDGER_URL: ledger,
  });

  it('is reported by doctor and stats, and loses nothing when it is followed by a move', async () => {
    const queue = unique('queue');
    const job = task(unique('job'), { queue, input: unchecked<number>() });
    const project = new CliProject({
      'outlast.config.mjs': `export default { worker: { queues: ['${queue}'] } };`,
    });
    onTestFinished(() => project.dispose());
    const outboxed = async (): Promise<number> =>
      (await database.pool.query(`select 1 from outlast_outbox where queue = $1`, [queue]))
        .rowCount ?? 0;
    const runWith = async (tier: Tier, env: Record<string, string>, ...args: string[]) => {
      const given = Object.entries(environment(tier)).filter(([, value]) => value !== undefined);
      const all = { ...(Object.fromEntries(given) as Record<string, string>), ...env };
      return await project.runWith(all, ...args);
    };
    const run = async (tier: Tier, ...args: string[]) => await runWith(tier, {}, ...args);
    const { tiers: memory } = await open({});
    const tiers = async (tier: Tier) => {
      if (memory === null) throw new Error('PostgreSQL remembers tiers');
      return await checkTiers(memory, resolveConfig({ database: database.url, ...tier }, {}));
    };
    const push = async (tier: Tier, n: number): Promise<void> => {
      const outlast = createOutlast({ database: database.url, ...tier });
      await outlast.push(job, n);
      await outlast.close();
    };
    const rabbit = rabbitmqUrl();
    const [alone, withRabbit] = [{}, { broker: rabbit }];
    const [both, onRedis] = [{ broker: rabbit, ledger: redis.url }, { broker: redis.url }];
    await database.pool.query('delete from outlast_tier');
    await push(alone, 1);
    const { ledger } = await open(alone);
    const dead = makeEnvelope({ queue, name: job.name });
    const error = sampleError('declined');
    await ledger.bury([{ kind: 'message', envelope: dead, reason: 'ERR_ATTEMPTS_SPENT', error }]);
    // Another broker with the same ledger: waiting tasks are still taken.
    await push(withRabbit, 2);
    expect(await tiers(withRabbit)).toMatchObject({ status: 'ok' });
    // Another ledger: the old one is out of sight, and is reported.
    const doctor = await run(both, 'doctor', '--json');
    expect(json<Doctor>(doctor.stdout).checks).toContainEqual({
      target: 'database',
      ...(await tiers(both)),
      status: 'problem',
      meaning: expect.any(String) as string,
    });
    const stats = json((await run(both, 'stats', '--json')).stdout) as { left_behind: string[] };
    expect(stats.left_behind[0]).toMatch(/the ledger in the database has 1 tasks .*1 dead letters/);
    const moved = await run(both, 'move', '--from-broker', rabbit);
    expect([moved.code, moved.stdout]).toEqual([0, expect.stringContaining('dead letters 1')]);
    expect(await tiers(both)).toMatchObject({ status: 'ok' });
    expect(await outboxed()).toBe(1);
    // Its message is still in RabbitMQ, until that is left too.
    // Not as flags, which other users could read in the process list.
    const from = { OUTLAST_FROM_BROKER_URL: rabbit, OUTLAST_FROM_LEDGER_URL: redis.url };
    const again = await runWith(onRedis, from, 'move');
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('messages 1')]);
    expect(await outboxed()).toBe(2);
    expect((await run(onRedis, 'move', '--from-broker', redis.url)).code).toBe(2);
    const ran: number[] = [];
    const outlast = createOutlast({ database: database.url, ...onRedis });
    const handler = outlast.handler(job, n => void ran.push(n));
    await serving(outlast, queue, [handler], async () => {
      await until(async () => ran.length === 2);
    });
    expect(new Set(ran)).toEqual(new Set([1, 2]));
    const letters = await run(onRedis, 'dead-letters', 'show', dead.id);
    expect(letters.stdout).toContain('ERR_ATTEMPTS_SPENT');
    // Back again: the database remembers that Redis was in use.
    const back = await tiers(alone);
    expect(back).toMatchObject({ status: 'problem' });
    expect(back.message).toContain(`${redis.url} was the ledger`);
    expect((await run(alone, 'move', '--from-broker', redis.url)).code).toBe(0);
    expect(await tiers(alone)).toMatchObject({ status: 'ok' });
  });

  it.each([
    ['PostgreSQL', () => ({})],
    ['Redis', () => ({ broker: redis.url })],
  ] as const)('killed in the middle of leaving %s moves nothing twice', async (_, tierOf) => {
    const queue = unique('queue');
    const stores = await open(tierOf());
    const { ledger, ledgerReads: reads, evacuation, tiers } = stores;
    if (tiers === null || !takesTasks(tiers)) throw new Error('PostgreSQL takes tasks');
    const envelopes = makeEnvelopes(5, { queue });
    await ledger.park(envelopes.map((envelope, n) => ({ envelope, delayMs: n * 1_000 })));
    const dying: MoveParts['tiers'] = {
      moveIn: async tasks => {
        await tiers.moveIn(tasks);
        throw new Error('killed');
      },
      endMove: () => tiers.endMove(),
      forget: store => tiers.forget(store),
    };
    const parts: MoveParts = {
      old: { broker: null, ledger, reads, evacuation },
      tiers: dying,
      queues: [queue],
      leaving: [],
      clock: systemClock,
      faultPoint: noFaults,
      redact: null,
    };
    await expect(moveTier(parts)).rejects.toThrow('killed');
    const outboxed = async (): Promise<string[]> => {
      const { rows } = await database.pool.query<{ task_id: string }>(
        'select task_id from outlast_outbox where queue = $1 order by id',
        [queue],
      );
      return rows.map(row => row.task_id);
    };
    expect((await outboxed()).toSorted()).toEqual(ids(envelopes).toSorted());
    expect(await reads.states(ids(envelopes))).toEqual(envelopes.map(() => 'waiting'));
    // Meanwhile some tasks have been relayed, have run, and were pruned.
    await database.pool.query('delete from outlast_outbox where task_id = any($1)', [
      ids(envelopes).slice(0, 2),
    ]);
    const report = await moveTier({ ...parts, tiers });
    expect(report).toMatchObject({ status: 'done' });
    expect(report.tasks).toBeGreaterThanOrEqual(5);
    expect((await outboxed()).toSorted()).toEqual(ids(envelopes).slice(2).toSorted());
    expect(await reads.states(ids(envelopes))).toEqual(envelopes.map(() => null));
  });

  it.each(['relay', 'resurrector'] as const)(
    'is detected where a %s was the only process that used the old store',
    async verb => {
      const project = new CliProject({ 'outlast.config.mjs': 'export default {};' });
      onTestFinished(() => project.dispose());
      const { tiers } = await open({});
      if (tiers === null) throw new Error('PostgreSQL remembers tiers');
      await database.pool.query('delete from outlast_tier');
      const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: redis.url };
      const service = project.start([verb], env);
      await until(async () => (await tiers.served()).length > 0);
      service.signal('SIGTERM');
      await service.ended;
      const left = await checkTiers(tiers, resolveConfig({ database: database.url }, {}));
      expect(left.message).toContain(`${redis.url} was the broker`);
      expect(left.message).toContain(`${redis.url} was the ledger`);
      await database.pool.query('delete from outlast_tier');
    },
  );

  it('is reported in the log of a worker that starts', async () => {
    const queue = unique('queue');
    const project = new CliProject({
      'outlast.config.mjs': `export default { tasks: ['./handlers.mjs'], worker: { queues: ['${queue}'] } };`,
      'handlers.mjs': `
        import { createOutlast, task } from 'outlast';
        import config from './outlast.config.mjs';
        const outlast = createOutlast(config);
        export const job = outlast.handler(task('tiers.job'), () => undefined);`,
    });
    onTestFinished(() => project.dispose());
    await database.pool.query('delete from outlast_tier');
    const outlast = createOutlast({ database: database.url });
    onTestFinished(() => outlast.close());
    const { id } = await outlast.push(task('tiers.job', { queue }));
    onTestFinished(async () => {
      await database.pool.query('delete from outlast_task where id = $1', [id]);
      await database.pool.query('delete from outlast_tier');
    });
    const start = async (tier: Tier, said: string): Promise<void> => {
      const given = Object.entries(environment(tier)).filter(([, value]) => value !== undefined);
      const worker = project.start(['worker'], Object.fromEntries(given) as Record<string, string>);
      await worker.says(said);
      await worker.stop();
    };
    await start({ broker: redis.url }, 'the ledger in the database has 1 tasks');
    await start({}, `${redis.url} was the ledger`);
  });

  it('is not moved while workers of the old ledger are alive', async () => {
    const { ledger, ledgerReads: reads, evacuation, tiers } = await open({});
    if (tiers === null || !takesTasks(tiers)) throw new Error('PostgreSQL takes tasks');
    const worker = unique('worker');
    await ledger.open({ worker, process: worker, host: 'h', pid: 1, leaseMs: 60_000 });
    const old = { broker: null, ledger, reads, evacuation };
    const given = { queues: [], leaving: [], clock: systemClock, redact: null };
    const parts = { old, tiers, ...given, faultPoint: noFaults };
    expect(await moveTier(parts)).toMatchObject({ status: 'busy', workers: 1 });
    await ledger.condemn({ kind: 'worker', worker });
  });
});

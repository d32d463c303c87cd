import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Outlast,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { unique } from '../conformance/envelopes.ts';
import { CliProject } from '../support/cli-project.ts';
import { gate, migratedDatabase, migratedMariadb, until } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { faultEnv } from '../support/fault-env.ts';

interface Setup {
  readonly redis: OwnRedis;
  readonly database: string;
  readonly outlast: Outlast;
  /** Everything outside the outbox. */
  loseAll(queue: string): Promise<void>;
}

interface Tier {
  readonly tier: string;
  readonly database: 'postgres' | 'mariadb';
  readonly broker: 'redis' | 'rabbitmq';
}

const TIERS: readonly Tier[] = [
  { tier: 'Redis, beside PostgreSQL', database: 'postgres', broker: 'redis' },
  { tier: 'Redis, beside MariaDB', database: 'mariadb', broker: 'redis' },
  { tier: 'RabbitMQ and a ledger in Redis', database: 'postgres', broker: 'rabbitmq' },
];

async function open(tier: Omit<Tier, 'tier'> = { database: 'postgres', broker: 'redis' }) {
  const redis = await startRedis();
  onTestFinished(() => redis.dispose());
  const make = tier.database === 'postgres' ? migratedDatabase : migratedMariadb;
  const database = await make('end_to_end');
  onTestFinished(() => database.dispose());
  const isRabbit = tier.broker === 'rabbitmq';
  const outlast = createOutlast({
    database: database.url,
    broker: isRabbit ? rabbitmqUrl() : redis.url,
    ledger: redis.url,
    relay: { receiptTimeout: '1s' },
  });
  onTestFinished(() => outlast.close());
  const loseAll = async (queue: string): Promise<void> => {
    if (isRabbit) {
      const rabbit = await RabbitInspector.connect();
      await rabbit.with(channel => channel.purgeQueue(queue));
      await rabbit.close();
    }
    await withRedis(redis.url, connection => connection.command('flushall'));
  };
  return { redis, database: database.url, outlast, loseAll } satisfies Setup;
}

const makeTask = (more: object = {}) =>
  task(unique('task'), {
    queue: unique('queue'),
    input: unchecked<number>(),
    result: unchecked<number>(),
    durability: 'end-to-end',
    ...more,
  });

const relaying = async (outlast: Outlast): Promise<void> => {
  const relay = await startRelay(outlast);
  onTestFinished(() => relay.stop());
};

async function working(outlast: Outlast, handler: Handler): Promise<void> {
  const { queue } = handler.task.contract;
  const worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
  onTestFinished(() => worker.stop());
}

const outboxOf = async (outlast: Outlast) => (await createAdmin(outlast).stats()).outbox;
const isEmpty = async (outlast: Outlast): Promise<boolean> => {
  const { pending, claimed, sent } = await outboxOf(outlast);
  return pending + claimed + sent === 0;
};

describe('a task with end-to-end durability', () => {
  it('cannot be requested by an unknown value', () => {
    const refusal = expect.objectContaining({ code: 'ERR_OPTION_RANGE' }) as Error;
    expect(() => makeTask({ durability: 'for-ever' })).toThrow(refusal);
  });

  it.each(TIERS)('survives the loss of all but the outbox: $tier', async tier => {
    const { outlast, loseAll } = await open(tier);
    const echo = makeTask();
    await relaying(outlast);
    const calls = Array.from({ length: 30 }, (_, n) => echo.with(n));
    const sent = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    await until(async () => (await outboxOf(outlast)).sent === 30);
    await loseAll(echo.contract.queue);
    const runs: number[] = [];
    const handler = outlast.handler(echo, n => {
      runs.push(n);
      return n;
    });
    await working(outlast, handler);
    const results = await Promise.all(sent.map(handle => handle.result({ timeout: '50s' })));
    expect(results).toEqual(calls.map((_, n) => n));
    expect(runs.toSorted((a, b) => a - b)).toEqual(results);
    await until(() => isEmpty(outlast));
  });

  it('survives a loss while it waits for its retry, and leaves the outbox however it ends', async () => {
    const { outlast, loseAll } = await open();
    const echo = makeTask();
    await relaying(outlast);
    let runs = 0;
    const retry = { maxAttempts: 2, backoff: '1h', jitter: 'tenth' } as const;
    const handler = outlast.handler(echo, {
      retry,
      run: n => {
        if (++runs === 1) throw new RangeError('once');
        return n;
      },
    });
    await working(outlast, handler);
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 7));
    await until(async () => (await sent.state()) === 'waiting' && runs === 1);
    await loseAll(echo.contract.queue);
    expect(await sent.result({ timeout: '50s' })).toBe(7);
    const late = await outlast.transaction(tx => outlast.send(tx, echo, 8, { id: unique('late') }));
    expect(await late.result({ timeout: '50s' })).toBe(8);
    await until(() => isEmpty(outlast));
  });

  it('leaves the outbox when a Python worker has written its result', async () => {
    const { outlast, redis } = await open();
    const echo = makeTask();
    await relaying(outlast);
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 1));
    await until(async () => (await outboxOf(outlast)).sent === 1);
    const meta = { status: 'SUCCESS', result: 1, traceback: null, children: [], task_id: sent.id };
    await withRedis(redis.url, async connection => {
      await connection.command('del', echo.contract.queue);
      await connection.command('set', `celery-task-meta-${sent.id}`, JSON.stringify(meta));
    });
    await until(() => isEmpty(outlast));
  });

  it.each(['the default outbox', 'a named outbox'])(
    'is checked by a resurrector while no relay runs: %s',
    async which => {
      const isNamed = which === 'a named outbox';
      const { outlast: own, redis, database } = await open();
      const crm = await migratedDatabase('end_to_end_crm');
      onTestFinished(() => crm.dispose());
      const named = { outboxes: { crm: { database: crm.url } }, outbox: 'crm' };
      const outlast = isNamed ? createOutlast({ database, broker: redis.url, ...named }) : own;
      if (isNamed) onTestFinished(() => outlast.close());
      const echo = makeTask();
      const relay = await startRelay(outlast);
      const sent = await outlast.transaction(tx => outlast.send(tx, echo, 5));
      await until(async () => (await outboxOf(outlast)).sent === 1);
      await relay.stop();
      await working(
        outlast,
        outlast.handler(echo, n => n),
      );
      expect(await sent.result({ timeout: '50s' })).toBe(5);
      expect(await outboxOf(outlast)).toMatchObject({ sent: 1 });
      const resurrector = await startResurrector(outlast);
      onTestFinished(() => resurrector.stop());
      await until(() => isEmpty(outlast));
    },
  );

  it('runs in the order of its key, each task after the previous one has ended', async () => {
    const { outlast } = await open();
    const echo = makeTask({ ordering: { key: () => 'one' } });
    await relaying(outlast);
    const first = gate();
    const steps: string[] = [];
    const handler = outlast.handler(echo, async n => {
      steps.push(`begin ${n}`);
      if (n === 0) await first.opened;
      steps.push(`end ${n}`);
      return n;
    });
    await working(outlast, handler);
    const calls = [0, 1, 2].map(n => echo.with(n));
    const sent = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    await until(async () => steps.length);
    // The ledger has known it for longer than the timeout: it is left alone, and so are the rows behind it.
    const looks = new Set<string>();
    await until(async () => {
      const text = `select available_at::text as at from outlast_outbox where state = 'sent'`;
      const [row] = await outlast.transaction(tx => tx.query(text));
      // A check changes the time twice, and the delay doubles each time: the fourth check is past the timeout.
      return looks.add(String(row?.['at'])).size > 7;
    });
    expect(await outboxOf(outlast)).toMatchObject({ pending: 2, claimed: 0, sent: 1 });
    expect(steps).toEqual(['begin 0']);
    first.open();
    await Promise.all(sent.map(handle => handle.result({ timeout: '50s' })));
    expect(steps).toEqual(['begin 0', 'end 0', 'begin 1', 'end 1', 'begin 2', 'end 2']);
  });

  it.each([
    ['park', 1],
    ['go-on', 0],
  ] as const)('that is dead treats its key as whenDead says: %s', async (whenDead, left) => {
    const { outlast } = await open();
    const echo = makeTask({ ordering: { key: () => 'one', whenDead } });
    await relaying(outlast);
    let isFixed = false;
    const handler = outlast.handler(echo, {
      retry: { maxAttempts: 1 },
      run: n => {
        if (n === 0 && !isFixed) throw new RangeError('broken');
        return n;
      },
    });
    await working(outlast, handler);
    const calls = [0, 1].map(n => echo.with(n));
    const [head, next] = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    if (head === undefined || next === undefined) throw new Error('nothing was sent');
    const admin = createAdmin(outlast);
    await until(() => admin.deadLetters.show(head.id));
    if (left === 1) {
      await until(
        async () => (await admin.outbox.list()).items.find(({ id }) => id === head.id)?.lastError,
      );
      expect(await outboxOf(outlast)).toMatchObject({ pending: 1, sent: 1 });
      isFixed = true;
      expect(await admin.deadLetters.retry(head.id)).toBe('ok');
    }
    expect(await next.result({ timeout: '50s' })).toBe(1);
    await until(() => isEmpty(outlast));
  });

  it('is checked by another relay when the first is killed between asking the ledger and acting', async () => {
    const { outlast, database, redis } = await open();
    const env = { OUTLAST_DATABASE_URL: database, OUTLAST_BROKER_URL: redis.url };
    const project = new CliProject({}, env);
    onTestFinished(() => project.dispose());
    const echo = makeTask();
    await working(
      outlast,
      outlast.handler(echo, n => n),
    );
    const hit = join(project.folder, 'hit');
    const fault = `relay.looked-not-settled:kill:1:${hit}`;
    const relay = project.start(['relay'], faultEnv(fault));
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 3));
    expect(await relay.ended).toMatchObject({ signal: 'SIGKILL' });
    expect(existsSync(hit)).toBe(true);
    expect(await outboxOf(outlast)).toMatchObject({ sent: 1 });
    await relaying(outlast);
    expect(await sent.result({ timeout: '50s' })).toBe(3);
    await until(() => isEmpty(outlast));
  });

  it('is not published again by a relay that slept there past its lease after another relay published it', async () => {
    const { outlast, database, redis, loseAll } = await open();
    const env = { OUTLAST_DATABASE_URL: database, OUTLAST_BROKER_URL: redis.url };
    const project = new CliProject({}, { ...env, OUTLAST_RELAY_RECEIPT_TIMEOUT: '1s' });
    onTestFinished(() => project.dispose());
    const echo = makeTask();
    const first = await startRelay(outlast);
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 4));
    await until(async () => (await outboxOf(outlast)).sent === 1);
    await first.stop();
    await loseAll(echo.contract.queue);
    const rowIs = async (what: string): Promise<boolean> => {
      const text = `select 1 from outlast_outbox where ${what}`;
      return (await outlast.transaction(tx => tx.query(text))).length === 1;
    };
    await until(() => rowIs(`updated_at < clock_timestamp() - interval '1 second'`));
    const hit = join(project.folder, 'hit');
    const sleeper = project.start(['relay'], {
      ...faultEnv(`relay.looked-not-settled:stop:1:${hit}`),
    });
    await until(async () => existsSync(hit));
    const [running, end] = [gate(), gate()];
    let runs = 0;
    const handler = outlast.handler(echo, async n => {
      runs++;
      running.open();
      await end.opened;
      return n;
    });
    await relaying(outlast);
    await working(outlast, handler);
    await running.opened;
    const isPublishedTwice = () => rowIs(`state = 'sent' and claims = 2`);
    await until(isPublishedTwice);
    sleeper.signal('SIGCONT');
    // Answers from before its sleep do not count any more.
    expect((await sleeper.stop()).code).toBe(0);
    expect(await isPublishedTwice()).toBe(true);
    end.open();
    expect(await sent.result({ timeout: '50s' })).toBe(4);
    await until(() => isEmpty(outlast));
    expect(runs).toBe(1);
  });
});

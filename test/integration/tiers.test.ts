import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import { createOutlast, task, unchecked, type Outlast } from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, json, type CliProcess } from '../support/cli-project.ts';
import { until } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { isLong } from '../support/selection.ts';
import { rabbitmqUrl, withDatabase, withMariadb, type TestDatabase } from '../support/servers.ts';

/** The URLs of one tier. */
interface TierUrls {
  readonly database: TestDatabase;
  readonly broker: string;
  /** Undefined: the broker. */
  readonly ledger?: string;
}

interface Tier {
  readonly tier: string;
  readonly open: (redis: OwnRedis) => Promise<TierUrls>;
}

/** Each broker and each database once. */
const TIERS: readonly Tier[] = [
  {
    tier: 'Redis alone, PostgreSQL',
    open: async ({ url }) => ({ database: await withDatabase('tier'), broker: url }),
  },
  {
    tier: 'RabbitMQ, ledger in Redis, MariaDB',
    open: async ({ url }) => ({
      database: await withMariadb('tier'),
      broker: rabbitmqUrl(),
      ledger: url,
    }),
  },
];
const MORE: readonly Tier[] = [
  {
    tier: 'RabbitMQ, ledger in Redis, PostgreSQL',
    open: async ({ url }) => ({
      database: await withDatabase('tier'),
      broker: rabbitmqUrl(),
      ledger: url,
    }),
  },
  {
    tier: 'Redis alone, MariaDB',
    open: async ({ url }) => ({ database: await withMariadb('tier'), broker: url }),
  },
];

const filesOf = (queue: string): Readonly<Record<string, string>> => ({
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({
      tasks: ['./handlers.mjs'],
      worker: { queues: ['${queue}'], lease: '3s', beat: '500ms' },
      relay: { maxRetries: 1, backoffTime: '1ms', brokerOutageCooldown: '1s', lifeLine: true },
    });`,
  'handlers.mjs': `
    import { appendFileSync, existsSync } from 'node:fs';
    import { createOutlast, task, unchecked } from 'outlast';
    import config from './outlast.config.mjs';
    const outlast = createOutlast(config);
    const options = { queue: '${queue}', input: unchecked(), result: unchecked() };
    export const echo = outlast.handler(task('tier.echo', options), input => input);
    export const broken = outlast.handler(task('tier.broken', options), {
      retry: { maxAttempts: 1 },
      run: () => {
        if (!existsSync('mended')) throw new RangeError('broken');
        return 'mended';
      },
    });
    export const saves = outlast.handler(task('tier.saves', options), {
      retry: { backoff: '1ms' },
      checkpoint: unchecked(),
      run: async (input, ctx) => {
        if (ctx.attempt === 2) return ctx.lastCheckpoint.length;
        await ctx.checkpoint('ü'.repeat(500_000));
        throw new Error('after its checkpoint');
      },
    });
    export const held = outlast.handler(task('tier.held', options), async (input, ctx) => {
      appendFileSync('runs', ctx.id + ' ' + process.pid + '\\n');
      while (!existsSync('open-' + ctx.id)) await new Promise(resolve => setTimeout(resolve, 20));
      return 'held';
    });`,
});

interface Letters {
  readonly items: readonly { readonly id: string; readonly where: string }[];
}
interface Stats {
  readonly tasks: { readonly done: number; readonly dead: number; readonly waiting: number };
}

describe.each(isLong ? [...TIERS, ...MORE] : TIERS)('$tier', ({ open }) => {
  const queue = unique('queue');
  const options = { queue, input: unchecked<unknown>(), result: unchecked<unknown>() };
  const echo = task('tier.echo', options);
  const broken = task('tier.broken', options);
  const held = task('tier.held', options);
  let redis: OwnRedis;
  let tier: TierUrls;
  let project: CliProject;
  let outlast: Outlast;
  let relay: CliProcess;
  let worker: CliProcess;

  beforeAll(async () => {
    redis = await startRedis(['--appendonly', 'yes', '--appendfsync', 'always']);
    tier = await open(redis);
    const { database, broker, ledger } = tier;
    const env = {
      OUTLAST_DATABASE_URL: database.url,
      OUTLAST_BROKER_URL: broker,
      ...(ledger === undefined ? {} : { OUTLAST_LEDGER_URL: ledger }),
    };
    project = new CliProject(filesOf(queue), env);
    outlast = createOutlast({ database: database.url, broker, ledger });
    expect(await project.run('migrate')).toMatchObject({ code: 0, stderr: '' });
    relay = project.start(['relay']);
    worker = project.start(['worker', '--processes', '2']);
    await worker.says('worker open');
  });

  afterAll(async () => {
    await outlast.close();
    const ended = await Promise.all([relay.stop(), worker.stop()]);
    expect(ended).toMatchObject([{ code: 0 }, { code: 0 }]);
    await project.dispose();
    await tier.database.drop();
    await redis.dispose();
  });

  const runsOf = (id: string): readonly number[] => {
    const file = join(project.folder, 'runs');
    const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
    return lines.flatMap(line => (line.startsWith(`${id} `) ? [Number(line.split(' ')[1])] : []));
  };
  const sendHeld = async () => {
    const handle = await outlast.transaction(tx => outlast.send(tx, held, null));
    await until(async () => runsOf(handle.id).length);
    return handle;
  };
  const letGo = (id: string): void => project.write(`open-${id}`, '');
  const stats = async (): Promise<Stats> => await createAdmin(outlast).stats();

  it('supports every verb', async () => {
    await project.run('send', 'tier.echo', '--queue', queue, '--args', '["ü"]', '--id', 'e-1');
    expect(await project.run('result', 'e-1', '--wait', '60')).toMatchObject({ stdout: '"ü"\n' });
    const missing = { celery: { exchange: 'missing' }, id: 'm-1' };
    await outlast.transaction(async tx => {
      await outlast.send(tx, broken, null, { id: 'b-1' });
      await outlast.send(tx, echo, 1, missing);
    });
    await until(async () => (await createAdmin(outlast).deadLetters.list()).items.length === 2);
    const listed = json<Letters>((await project.run('dead-letters', 'list', '--json')).stdout);
    expect(listed.items.map(({ id, where }) => `${id} ${where}`).toSorted()).toEqual([
      'b-1 worker',
      'm-1 relay',
    ]);
    project.write('mended', '');
    expect(await project.run('dead-letters', 'retry', 'b-1')).toMatchObject({ code: 0 });
    expect(await outlast.find(broken, 'b-1').result({ timeout: '60s' })).toBe('mended');
    const [told, doctor] = await Promise.all([
      project.run('stats', '--json'),
      project.run('doctor'),
    ]);
    expect(json<Stats>(told.stdout).tasks).toMatchObject({ done: 2, dead: 0 });
    expect(doctor.stdout).toContain('ok       ledger memory');
    expect(doctor.stdout).toContain('ok       ledger durability');
  });

  it('shows the life of a task from its send to its end, across outbox, broker and worker', async () => {
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 1));
    await sent.result({ timeout: '60s' });
    const { stdout } = await project.run('tasks', 'inspect', sent.id, '--json');
    const { life } = json<{ life: readonly { step: string; gap_ms: number | null }[] }>(stdout);
    const steps = ['enqueued', 'claimed', 'published', 'received', 'begun', 'done'];
    expect(life.map(({ step }) => step)).toEqual(steps);
    expect(life.slice(1).every(({ gap_ms: gap }) => gap !== null && gap >= 0)).toBe(true);
  });

  it('hands the next run a checkpoint that is too large for the ledger', async () => {
    const sent = await outlast.push(task('tier.saves', options), null);
    expect(await sent.result({ timeout: '60s' })).toBe(500_000);
  });

  it('ends a task that is cancelled while it runs', async () => {
    const handle = await sendHeld();
    expect(await handle.state()).toBe('running');
    await handle.cancel();
    expect(await handle.state()).toBe('cancelled');
    await expect(handle.result()).rejects.toMatchObject({ code: 'ERR_TASK_CANCELLED' });
  });

  it('runs the task of a killed process elsewhere', async () => {
    const { id } = await sendHeld();
    const [pid = 0] = runsOf(id);
    process.kill(pid, 'SIGKILL');
    const [, other] = await until(async () => runsOf(id).length > 1 && runsOf(id));
    expect(other).not.toBe(pid);
    letGo(id);
    expect(await outlast.find(held, id).result({ timeout: '60s' })).toBe('held');
  });

  it('loses and repeats nothing when Redis is restarted without its scripts', async () => {
    const running = await sendHeld();
    const before = (await stats()).tasks.done;
    const inputs = Array.from({ length: 150 }, (_, index) => index);
    const handles = await outlast.transaction(tx =>
      outlast.sendMany(
        tx,
        inputs.map(input => echo.with(input)),
      ),
    );
    await until(async () => (await stats()).tasks.done > before);
    await withRedis(redis.url, connection => connection.command('script', 'flush'));
    await redis.stop('SIGKILL');
    await redis.start();
    const results = handles.map(handle => handle.result({ timeout: '90s' }));
    expect(await Promise.all(results)).toEqual(inputs);
    letGo(running.id);
    expect(await running.result({ timeout: '60s' })).toBe('held');
    expect((await stats()).tasks).toMatchObject({ done: before + inputs.length + 1, waiting: 0 });
  });

  it('brings back the tasks of a lost host', async () => {
    const { id } = await sendHeld();
    const children = worker.stderr.matchAll(/worker open pid=(\d+)/g);
    worker.signal('SIGKILL');
    for (const [, pid] of children) killIfThere(Number(pid));
    const resurrector = project.start(['resurrector']);
    await until(async () => (await createAdmin(outlast).tasks.inspect(id))?.state === 'waiting');
    expect(await resurrector.stop()).toMatchObject({ code: 0 });
    worker = project.start(['worker']);
    letGo(id);
    expect(await outlast.find(held, id).result({ timeout: '60s' })).toBe('held');
    expect(runsOf(id)).toHaveLength(2);
  });
});

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It was killed by an earlier test.
  }
}

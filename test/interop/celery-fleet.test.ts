import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { unique } from '../conformance/envelopes.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startRabbit } from '../support/rabbit-server.ts';
import { createAdmin } from '../../src/admin/create-admin.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import {
  CeleryControl,
  endProcess,
  receiveEvents,
  runCelery,
  sendFromPython,
  startCeleryWorker,
  type CeleryEvent,
  type CeleryTarget,
} from './celery-kit.ts';
import { handlerOf, startFleetWorker, type FleetWorker, type StartOptions } from './fleet-kit.ts';

let database: MigratedDatabase;
let redis: OwnRedis;

beforeAll(async () => {
  database = await migratedDatabase('fleet');
  redis = await startRedis();
});

afterAll(async () => {
  await redis.dispose();
  await database.dispose();
});

const targetOn = (broker: string): CeleryTarget => ({
  broker,
  backend: redis.url.replace(/0$/, '1'),
});

interface Broker {
  readonly name: string;
  readonly url: () => string;
}

const BROKERS: readonly Broker[] = [
  { name: 'RabbitMQ', url: rabbitmqUrl },
  { name: 'Redis', url: () => redis.url },
];

describe.each(BROKERS)('a worker on $name', ({ url }) => {
  let control: CeleryControl;
  const target = (): CeleryTarget => targetOn(url());
  beforeAll(() => {
    control = new CeleryControl(target());
  });
  afterAll(() => control.close());

  /** Repeats until it answers: a worker that has just started has no mailbox yet. */
  const ask = (node: string, method: string, given: object = {}): Promise<unknown> =>
    until(() => control.ask(node, method, given));

  function start(
    handlers: StartOptions['handlers'],
    options: Partial<StartOptions> = {},
  ): Promise<FleetWorker> {
    return startFleetWorker({ database: database.url, broker: url(), handlers, ...options });
  }

  const stateOf = async ({ stores }: FleetWorker, id: string): Promise<string> =>
    (await stores.results.read(id)).state;

  /** A handler that begins, and ends when the test allows it or its signal aborts. */
  function gated(queue: string, name = 'fleet.gated') {
    const [began, goesOn, aborted] = [gate<string>(), gate(), gate<string>()];
    const handler = handlerOf(name, queue, async (_args, ctx) => {
      began.open(ctx.id);
      ctx.signal.addEventListener('abort', () => aborted.open(ctx.id));
      await goesOn.opened;
      return 'ended';
    });
    return { handler, began, goesOn, aborted };
  }

  it('answers ping and status, and reports its tasks, queues and statistics', async () => {
    const queue = unique('fleet');
    const { node } = await start([
      handlerOf('fleet.b', queue, () => 1),
      handlerOf('fleet.a', queue, () => 1),
    ]);
    expect(await ask(node, 'ping')).toEqual({ ok: 'pong' });
    const inspect = async (action: string): Promise<unknown> => {
      const { stdout } = await runCelery(target(), 'inspect', action, '-j', '-t', '20', '-d', node);
      return (JSON.parse(stdout) as Record<string, unknown>)[node];
    };
    expect(await inspect('ping')).toEqual({ ok: 'pong' });
    expect((await runCelery(target(), 'status', '-t', '5')).stdout).toContain(`${node}: OK`);
    expect(await inspect('registered')).toEqual(['fleet.a', 'fleet.b']);
    expect(await inspect('active')).toEqual([]);
    const stats = await inspect('stats');
    expect(stats).toMatchObject({
      pid: process.pid,
      total: {},
      pool: { 'max-concurrency': 4 },
      prefetch_count: 4,
      broker: { hostname: '127.0.0.1', port: Number(new URL(url()).port) },
    });
    expect(JSON.stringify(stats)).not.toContain('guest:guest');
    expect(JSON.stringify(stats)).not.toContain('password');
    expect(await ask(node, 'active_queues')).toMatchObject([
      { name: queue, routing_key: queue, exchange: { name: queue, type: 'direct' } },
    ]);
    expect(await ask(node, 'no_such')).toEqual({ error: "KeyError('no_such')" });
    const conf = await ask(node, 'conf');
    expect(conf).toMatchObject({ worker_concurrency: 4, task_queues: [queue] });
    expect(JSON.stringify(conf)).not.toContain('guest');
    expect(await ask(node, 'report')).toEqual({
      ok: expect.stringContaining('outlast:') as string,
    });
    const change = (method: string, given: object) => ask(node, method, given);
    expect(await change('rate_limit', { task_name: 'none', rate_limit: '1/s' })).toEqual({
      error: 'unknown task',
    });
    for (const [method, given, why] of [
      ['rate_limit', { task_name: 'fleet.a', rate_limit: '1/s' }, 'admission'],
      ['time_limit', { task_name: 'fleet.a', hard: 5, soft: 1 }, 'timeouts'],
      ['pool_grow', { n: 1 }, 'concurrency'],
      ['pool_shrink', { n: 1 }, 'concurrency'],
      ['pool_restart', { modules: null }, 'Pool restarts not enabled'],
      ['autoscale', { max: 2, min: 1 }, 'Autoscale not enabled'],
    ] as const)
      expect(await change(method, given)).toEqual({
        error: expect.stringContaining(why) as string,
      });
  });

  it('lists what it runs, with redacted arguments', async () => {
    const queue = unique('fleet');
    const { handler, began, goesOn } = gated(queue);
    const { node } = await start([handler], {
      redact: ({ kwargs }) => ({ args: ['***'], kwargs }),
    });
    const id = randomUUID();
    const call = { name: 'fleet.gated', args: ['secret'], kwargs: { order: 7 } };
    await sendFromPython(target(), [{ ...call, options: { queue, task_id: id } }]);
    expect(await began.opened).toBe(id);
    const active = await ask(node, 'active');
    expect(active).toMatchObject([
      { id, name: 'fleet.gated', args: ['***'], kwargs: { order: 7 }, hostname: node },
    ]);
    goesOn.open();
  });

  it('never runs a task that was revoked before it arrived', async () => {
    const queue = unique('fleet');
    const ran: string[] = [];
    const worker = await start([handlerOf('fleet.run', queue, (_args, { id }) => ran.push(id))]);
    const [revoked, next] = [randomUUID(), randomUUID()];
    expect(await ask(worker.node, 'revoke', { task_id: revoked })).toEqual({
      ok: `tasks ${revoked} flagged as revoked`,
    });
    const calls = [revoked, next].map(id => ({
      name: 'fleet.run',
      options: { queue, task_id: id },
    }));
    await sendFromPython(target(), calls);
    await until(async () => ran.includes(next));
    expect(ran).toEqual([next]);
    expect(await stateOf(worker, revoked)).toBe('cancelled');
    // Other tests share the broker, and a revocation reaches every worker there.
    expect(await ask(worker.node, 'revoked')).toContain(revoked);
  });

  it('lets a revoked running task finish, and aborts one that is to be terminated', async () => {
    const queue = unique('fleet');
    const [mild, hard] = [gated(queue, 'fleet.mild'), gated(`${queue}.hard`, 'fleet.hard')];
    const worker = await start([mild.handler, hard.handler]);
    const ids = { mild: randomUUID(), hard: randomUUID() };
    await sendFromPython(target(), [
      { name: 'fleet.mild', options: { queue, task_id: ids.mild } },
      { name: 'fleet.hard', options: { queue: `${queue}.hard`, task_id: ids.hard } },
    ]);
    await Promise.all([mild.began.opened, hard.began.opened]);
    await ask(worker.node, 'revoke', { task_id: [ids.mild] });
    const ended = await ask(worker.node, 'revoke', { task_id: ids.hard, terminate: 1 });
    expect(ended).toEqual({ ok: `terminate: ${ids.hard}` });
    expect(await hard.aborted.opened).toBe(ids.hard);
    expect(await stateOf(worker, ids.hard)).toBe('cancelled');
    expect(await stateOf(worker, ids.mild)).toBe('running');
    for (const { goesOn } of [mild, hard]) goesOn.open();
    await until(async () => (await stateOf(worker, ids.mild)) === 'done');
    expect(await stateOf(worker, ids.hard)).toBe('cancelled');
  });

  it('has a task revoked at Python workers when its sender cancels it', async () => {
    const [queue, node] = [unique('fleet'), `${unique('python')}@host`];
    const python = await startCeleryWorker(target(), [queue], node);
    onTestFinished(() => endProcess(python));
    const outlast = createOutlast({ database: database.url, broker: url() });
    onTestFinished(() => outlast.close());
    const later = task('interop.echo', { queue, input: unchecked<string>() });
    const [first, second] = [
      await outlast.push(later, 'x', { countdown: '1h' }),
      await outlast.push(later, 'x', { countdown: '1h' }),
    ];
    await first.cancel();
    expect(await createAdmin(outlast).tasks.cancel(second.id)).toBe('ok');
    await until(async () => {
      const revoked = (await ask(node, 'revoked')) as readonly string[];
      return revoked.includes(first.id) && revoked.includes(second.id);
    });
  });

  it('stops consuming a queue and consumes it again', async () => {
    const [queue, other] = [unique('fleet'), unique('other')];
    const ran: string[] = [];
    const record = (_args: unknown, ctx: { readonly id: string }) => ran.push(ctx.id);
    const { node } = await start([
      handlerOf('fleet.one', queue, record),
      handlerOf('fleet.two', other, record),
    ]);
    expect(await ask(node, 'cancel_consumer', { queue })).toEqual({
      ok: `no longer consuming from ${queue}`,
    });
    const [first, second] = [randomUUID(), randomUUID()];
    await sendFromPython(target(), [
      { name: 'fleet.one', options: { queue, task_id: first } },
      { name: 'fleet.two', options: { queue: other, task_id: second } },
    ]);
    await until(async () => ran.includes(second));
    expect(ran).toEqual([second]);
    expect(await ask(node, 'add_consumer', { queue })).toEqual({
      ok: `add consumer ${queue}`,
    });
    await until(async () => ran.includes(first));
  });

  it('drains on a shutdown command, and the others continue', async () => {
    const queue = unique('fleet');
    const { handler, began, goesOn } = gated(queue);
    const worker = await start([handler]);
    const other = await start([handlerOf('fleet.other', unique('other'), () => 1)]);
    const id = randomUUID();
    await sendFromPython(target(), [{ name: 'fleet.gated', options: { queue, task_id: id } }]);
    await began.opened;
    await ask(worker.node, 'ping');
    const shutdown = await runCelery(
      target(),
      'control',
      'shutdown',
      '-t',
      '20',
      '-d',
      worker.node,
    );
    expect(shutdown).toMatchObject({ code: 0 });
    goesOn.open();
    await worker.service.finished;
    expect(await stateOf(worker, id)).toBe('done');
    expect(await ask(other.node, 'ping')).toEqual({ ok: 'pong' });
  });

  it('sends events about itself and its tasks, in order, with redacted arguments', async () => {
    const queue = unique('fleet');
    const { events, child } = await receiveEvents(target());
    onTestFinished(() => endProcess(child));
    const attempts: number[] = [];
    const { node, service } = await start(
      [
        handlerOf('fleet.good', queue, () => 'top secret'),
        handlerOf('fleet.bad', queue, () => {
          attempts.push(1);
          throw new RangeError(`attempt ${attempts.length}`);
        }),
      ],
      {
        worker: { celeryEvents: 'on' },
        redact: ({ kwargs }) => ({ args: ['***'], kwargs }),
      },
    );
    const [good, bad, late] = [randomUUID(), randomUUID(), randomUUID()];
    const expires = new Date(Date.now() - 60_000).toISOString().replace('Z', '+00:00');
    await sendFromPython(target(), [
      { name: 'fleet.good', args: ['secret'], options: { queue, task_id: good } },
      { name: 'fleet.bad', options: { queue, task_id: bad } },
      { name: 'fleet.good', options: { queue, task_id: late, expires } },
    ]);
    const of = (uuid: string): readonly CeleryEvent[] =>
      events.filter(event => event['uuid'] === uuid);
    const types = (uuid: string): readonly string[] => of(uuid).map(({ type }) => type);
    await until(async () => types(good).includes('task-succeeded'));
    await until(async () => types(bad).includes('task-failed'));
    await until(async () => types(late).includes('task-revoked'));
    expect(types(good)).toEqual(['task-received', 'task-started', 'task-succeeded']);
    expect(types(bad)).toEqual([
      'task-received',
      'task-started',
      'task-retried',
      'task-received',
      'task-started',
      'task-failed',
    ]);
    expect(of(good)[0]).toMatchObject({
      name: 'fleet.good',
      hostname: node,
      pid: process.pid,
      args: '["***"]',
      kwargs: '{}',
      retries: 0,
      root_id: good,
      parent_id: null,
      eta: null,
      expires: null,
      clock: expect.any(Number) as number,
      local_received: expect.any(Number) as number,
    });
    expect(of(bad)[3]).toMatchObject({ retries: 1 });
    expect(of(bad).at(-1)).toMatchObject({
      exception: "RangeError('attempt 2')",
      traceback: expect.stringContaining('RangeError: attempt 2') as string,
    });
    expect(of(late).at(-1)).toMatchObject({ expired: true, terminated: false });
    expect(JSON.stringify(events)).not.toContain('secret');
    const own = (): readonly CeleryEvent[] =>
      events.filter(event => event.type.startsWith('worker-') && event['hostname'] === node);
    await until(async () => own().some(({ type }) => type === 'worker-heartbeat'));
    await service.stop();
    await until(async () => own().some(({ type }) => type === 'worker-offline'));
    expect(own()[0]).toMatchObject({ type: 'worker-online', sw_ident: 'outlast', freq: 2 });
    expect(own().at(-1)).toMatchObject({ type: 'worker-offline', processed: 3 });
  });

  it('starts sending events on request', async () => {
    const queue = unique('fleet');
    const { events, child } = await receiveEvents(target());
    onTestFinished(() => endProcess(child));
    const { node } = await start([handlerOf('fleet.good', queue, () => 1)]);
    expect(await ask(node, 'ping')).toEqual({ ok: 'pong' });
    expect(events.filter(event => event['hostname'] === node)).toEqual([]);
    expect(await ask(node, 'enable_events')).toEqual({
      ok: 'task events enabled',
    });
    const id = randomUUID();
    await sendFromPython(target(), [{ name: 'fleet.good', options: { queue, task_id: id } }]);
    await until(async () =>
      events.some(event => event['uuid'] === id && event.type === 'task-succeeded'),
    );
    expect(events.some(event => event.type === 'worker-online' && event['hostname'] === node)).toBe(
      true,
    );
  });

  it('does not answer where remote control is off, and still runs tasks', async () => {
    const queue = unique('fleet');
    const done = gate();
    const { node } = await start([handlerOf('fleet.good', queue, () => done.open())], {
      worker: { celeryControl: 'off' },
    });
    await sendFromPython(target(), [{ name: 'fleet.good', options: { queue } }]);
    await done.opened;
    const { stdout } = await runCelery(target(), 'status', '-t', '5');
    expect(stdout).not.toContain(node);
  });

  it('can be reached again after its connections were cut', async () => {
    const proxy = await TcpProxy.to(url());
    onTestFinished(() => proxy.close());
    const { node } = await start([handlerOf('fleet.good', unique('fleet'), () => 1)], {
      broker: proxy.url(url()),
    });
    expect(await ask(node, 'ping')).toEqual({ ok: 'pong' });
    proxy.cut();
    expect(await ask(node, 'ping')).toEqual({ ok: 'pong' });
  });
});

interface Restartable {
  readonly url: string;
  kill(): Promise<void>;
  start(): Promise<void>;
  dispose(): Promise<void>;
}

async function ownRedis(): Promise<Restartable> {
  const server = await startRedis();
  return { ...server, kill: () => server.stop('SIGKILL') };
}

describe.each([
  ['RabbitMQ', startRabbit],
  ['Redis', ownRedis],
] as const)(
  'a worker on a %s that is killed and started again',
  { timeout: 240_000 },
  (_, open) => {
    it('can be reached again, sends its events again, and runs new tasks', async () => {
      const own: Restartable = await open();
      onTestFinished(() => own.dispose());
      const target = targetOn(own.url);
      // A new process for each question: how a client survives a restart is not tested here.
      const isReached = async (node: string): Promise<boolean> => {
        const control = new CeleryControl(target);
        const answer = await control.ask(node, 'ping');
        await control.close();
        return answer !== undefined;
      };
      const queue = unique('fleet');
      const { node } = await startFleetWorker({
        database: database.url,
        broker: own.url,
        handlers: [handlerOf('fleet.good', queue, () => 1)],
        worker: { celeryEvents: 'on' },
      });
      await until(() => isReached(node));
      await own.kill();
      await own.start();
      await until(() => isReached(node));
      const { events, child } = await receiveEvents(target);
      onTestFinished(() => endProcess(child));
      const id = randomUUID();
      await sendFromPython(target, [{ name: 'fleet.good', options: { queue, task_id: id } }]);
      await until(async () =>
        events.some(event => event['uuid'] === id && event.type === 'task-succeeded'),
      );
    });
  },
);

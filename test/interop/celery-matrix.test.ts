import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { chain, chord, group } from '../../dist/task/index.js';
import type { PoolClient } from 'pg';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import {
  callFromPython,
  endProcess,
  runCelery,
  startCeleryWorker,
  type CeleryCall,
  type CeleryCanvas,
  type CeleryTarget,
} from './celery-kit.ts';

/** Every way of calling, in both directions, with results where both languages read them: the Redis of the ledger. */
describe.each([
  ['RabbitMQ', () => rabbitmqUrl()],
  ['Redis', (redis: OwnRedis) => redis.url],
] as const)('Python and TypeScript on %s', (broker, brokerOn) => {
  const [python, ours] = [unique('python'), unique('ours')];
  const [pythonUrgent, oursUrgent] = [unique('python.urgent'), unique('ours.urgent')];
  let database: MigratedDatabase;
  let redis: OwnRedis;
  let store: RedisConnection;
  let target: CeleryTarget;
  let worker: ChildProcess;
  let rabbit: RabbitInspector | undefined;
  let outlast: Outlast<PoolClient>;
  const services: Service[] = [];

  const numbers = { args: unchecked<number[]>(), result: unchecked<number>() };
  const loose = { args: unchecked<unknown[]>(), kwargs: unchecked<object>() };
  const echo = task('interop.echo', { queue: python, ...loose, result: unchecked<EchoResult>() });
  const add = task('interop.add', { queue: python, ...numbers });
  const total = task('interop.total', {
    queue: python,
    input: unchecked<number[]>(),
    result: unchecked<number>(),
  });
  const fail = task('interop.fail', { queue: python, args: unchecked<[string]>() });
  const tsEcho = task('ts.echo', { queue: ours, ...loose, result: unchecked<unknown>() });
  const tsAdd = task('ts.add', { queue: ours, ...numbers });
  const tsTotal = task('ts.total', {
    queue: ours,
    input: unchecked<number[]>(),
    result: unchecked<number>(),
  });
  const tsFail = task('ts.fail', { queue: ours, args: unchecked<unknown[]>() });
  const tsSlow = task('ts.slow', { queue: ours });
  const tsSecond = task('ts.second', { queue: ours, result: unchecked<string>() });
  const tsAlarm = task('ts.alarm', { queue: ours, input: unchecked<string>() });
  const tsTurn = task('ts.turn', { queue: oursUrgent, args: unchecked<string[]>() });
  const alarms: string[] = [];

  interface EchoResult {
    readonly args: readonly unknown[];
    readonly kwargs: object;
    readonly at: number;
  }

  beforeAll(async () => {
    [database, redis] = [await migratedDatabase('matrix'), await startRedis()];
    const url = brokerOn(redis);
    const kombu = url.replace(/^(amqp:.*[^/])\/$/, '$1//');
    target = { broker: kombu, backend: redis.url };
    store = await RedisConnection.open({ url: redis.url, role: 'ledger', name: 'matrix' });
    worker = await startCeleryWorker(target, [python]);
    const adapter = fromPg(database.pool);
    outlast = createOutlast({ database: database.url, broker: url, ledger: redis.url, adapter });
    const retry = { maxAttempts: 2, backoff: '300ms', jitter: 'none' } as const;
    const sum = (list: readonly number[]) => list.reduce((one, other) => one + other, 0);
    const tasks = [
      outlast.handler(tsEcho, ({ args, kwargs }) => ({ args, kwargs, at: Date.now() / 1_000 })),
      outlast.handler(tsAdd, ({ args }) => sum(args)),
      outlast.handler(tsTotal, list => sum(list)),
      outlast.handler(tsFail, {
        retry: { maxAttempts: 1 },
        run: ({ args }) => {
          const [text, name] = args.map(String);
          throw Object.assign(new RangeError(text), name === undefined ? {} : { name });
        },
      }),
      outlast.handler(tsSlow, {
        retry: { maxAttempts: 1 },
        run: async (_input, { signal, softSignal }) => {
          await Promise.race([signal, softSignal].map(one => once(one, 'abort')));
          softSignal.throwIfAborted();
        },
      }),
      outlast.handler(tsSecond, {
        retry,
        run: (_input, { attempt }) => {
          if (attempt === 1) throw new Error('not yet');
          return `attempt ${attempt}`;
        },
      }),
      outlast.handler(tsAlarm, id => void alarms.push(id)),
    ];
    // RabbitMQ has priorities only if the queue was declared with them; an existing queue is used as it is.
    if (broker === 'RabbitMQ') {
      rabbit = await RabbitInspector.connect();
      for (const queue of [pythonUrgent, oursUrgent])
        await rabbit.with(channel => channel.assertQueue(queue, { maxPriority: 10 }));
    }
    services.push(
      await startRelay(outlast, { publishConcurrency: 50 }),
      await startResurrector(outlast),
      await startWorker(outlast, {
        tasks,
        queues: [ours],
        concurrency: 10,
        idleTime: '100ms',
        trackStarted: 'on',
      }),
    );
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    await outlast.close();
    await rabbit?.close();
    store.close();
    await endProcess(worker);
    await redis.dispose();
    await database.dispose();
  });

  describe('from TypeScript to Python, with the result in TypeScript', () => {
    it('plain, with keyword arguments, in every script, beyond 2^53', async () => {
      const args = [1, 'žluťoučký 🐎 \u0000 日本', [2n ** 53n + 1n, 2n ** 70n], null];
      const kwargs = { order: { id: 7n ** 25n }, klíč: true };
      const sent = await outlast.transaction(tx => outlast.send(tx, echo, { args, kwargs }));
      expect(await sent.result()).toMatchObject({ args, kwargs });
    });

    it('at its eta, and not after it expires', async () => {
      const eta = new Date(Date.now() + 1_000);
      const input = { args: [], kwargs: {} };
      const [later, late] = await outlast.transaction(tx =>
        outlast.sendMany(tx, [
          echo.with(input, { eta }),
          echo.with(input, { expires: new Date(Date.now() - 1_000) }),
        ]),
      );
      expect((await later.result()).at * 1_000).toBeGreaterThanOrEqual(eta.getTime());
      await expect(late.result()).rejects.toMatchObject({ code: 'ERR_TASK_EXPIRED' });
    });

    it('as chain, group and chord', async () => {
      const [chained, both, summed] = await outlast.transaction(tx =>
        outlast.sendMany(tx, [
          chain(add.with({ args: [2, 2] }), add.after({ args: [4] }), add.after({ args: [8] })),
          group([add.with({ args: [1, 1] }), add.with({ args: [2, 2] })]),
          chord([add.with({ args: [1, 1] }), add.with({ args: [2, 2] })], total),
        ]),
      );
      expect(await chained.result()).toBe(16);
      expect(await both.result()).toEqual([2, 4]);
      expect(await summed.result()).toBe(6);
    });

    it('with an error link back to TypeScript', async () => {
      const failed = await outlast.transaction(tx =>
        outlast.send(tx, fail, { args: ['on purpose'] }, { linkError: tsAlarm }),
      );
      await expect(failed.result()).rejects.toMatchObject({
        code: 'ERR_TASK_FAILED',
        type: 'ValueError',
      });
      await until(async () => alarms.includes(failed.id));
    });
  });

  const call = (name: string, more: Omit<CeleryCall, 'name'> = {}): CeleryCall => ({
    ...more,
    name,
    options: { queue: ours, ...more.options },
  });

  describe('one queue that both fill', () => {
    /** On RabbitMQ 9 is the most urgent and nothing is 0; to Celery on Redis 0 is the most urgent. */
    const inTurn = (pairs: readonly (readonly [string, string])[]): readonly string[] => {
      const [none, low, mid, high] = pairs as [Pair, Pair, Pair, Pair];
      return broker === 'Redis'
        ? [...none, ...low, ...mid, ...high]
        : [...high, ...mid, ...low, ...none];
    };
    type Pair = readonly [ofTypeScript: string, ofPython: string];
    const PRIORITIES = [undefined, 3, 6, 9];

    /** Sent by both, and all of it in the queue: the ids in the order in which they should run. */
    async function fill(name: string, queue: string, args: string[]): Promise<readonly string[]> {
      const contract = task(name, { queue, args: unchecked<string[]>() });
      const calls = PRIORITIES.map(priority =>
        contract.with({ args }, priority === undefined ? {} : { priority }),
      );
      const handles = await outlast.transaction(tx => outlast.sendMany(tx, calls));
      const rows = 'select 1 from outlast_outbox';
      await until(async () => (await database.pool.query(rows)).rowCount === 0);
      const { ids } = await callFromPython(
        { ...target, maxPriority: 10 },
        PRIORITIES.map(priority => call(name, { args, options: { queue, priority } })),
      );
      // Python waits for no confirm.
      await until(async () => (await rabbit?.depth(queue)) === (rabbit && 8));
      return inTurn(handles.map(({ id }, at) => [id, ids[at] ?? ''] as const));
    }

    it('is taken from by Python in the order of their priorities', async () => {
      const key = unique('order');
      const expected = await fill('interop.record', pythonUrgent, [key]);
      const second = await startCeleryWorker({ ...target, maxPriority: 10 }, [pythonUrgent]);
      onTestFinished(() => endProcess(second));
      await until(async () => (await store.command('llen', key)) === expected.length);
      const ran = (await store.command('lrange', key, 0, -1)) as readonly Buffer[];
      expect(ran.map(String)).toEqual(expected);
    });

    it('is taken from by TypeScript in the same order', async () => {
      const expected = await fill('ts.turn', oursUrgent, []);
      const ran: string[] = [];
      const one = await startWorker(outlast, {
        tasks: [outlast.handler(tsTurn, (_input, { id }) => void ran.push(id))],
        queues: [oursUrgent],
        concurrency: 1,
        idleTime: '100ms',
      });
      onTestFinished(() => one.stop());
      await until(async () => ran.length === expected.length);
      expect(ran).toEqual(expected);
    });

    it('has what Python told a TypeScript worker to send where Python would have put it', async () => {
      const headersOf = (given: object): CeleryCanvas => {
        const options = { queue: python, headers: { region: 'eu' }, ...given };
        return { chain: [call('ts.echo'), { name: 'interop.headers', immutable: true, options }] };
      };
      const { outcomes } = await callFromPython(target, [
        headersOf({ priority: 3 }),
        headersOf({}),
      ]);
      expect((await outcomes).map(({ value }) => value)).toMatchObject([
        { priority: 3 },
        { priority: 0 },
      ]);
    });
  });

  describe('from Python to TypeScript, with AsyncResult.get() in Python', () => {
    const theirs = (name: string, more: Omit<CeleryCall, 'name'> = {}): CeleryCall =>
      call(name, { ...more, options: { ...more.options, queue: python } });

    it('every way of calling', async () => {
      const eta = new Date(Date.now() + 1_500);
      const big = '[9007199254740993, "žluťoučký 🐎"]';
      const calls = [
        call('ts.second'),
        call('ts.echo', { args: ['ARGS'], kwargs: { order: { id: 7 } } }),
        call('ts.echo', { options: { eta: eta.toISOString().replace('Z', '+00:00') } }),
        call('ts.echo', { options: { expires: '2020-01-01T00:00:00+00:00' } }),
        call('ts.fail', { args: ['no funds'] }),
        { chain: [call('ts.add', { args: [2, 2] }), call('ts.add', { args: [4] })] },
        { group: [call('ts.add', { args: [1, 1] }), call('ts.add', { args: [2, 2] })] },
        {
          header: [call('ts.add', { args: [1, 1] }), call('ts.add', { args: [2, 2] })],
          body: call('ts.total'),
        },
        { ...call('ts.fail', { args: ['an alarm'] }), linkError: [call('ts.alarm')] },
        call('ts.fail', { args: ['no funds', 'ValueError'] }),
        call('ts.fail', { args: ['no funds', 'SystemExit'] }),
        call('ts.slow', { options: { time_limit: 1 } }),
        call('ts.slow', { options: { soft_time_limit: 1 } }),
      ];
      const json = JSON.stringify(calls).replace('["ARGS"]', big);
      const { ids, outcomes } = await callFromPython(target, json);
      const [second, echoed, later, late, failed, chained, both, summed, alarming, ...named] =
        await outcomes;
      expect(second).toMatchObject({
        value: 'attempt 2',
        seen: ['STARTED', 'RETRY', 'STARTED', 'SUCCESS'],
      });
      expect(echoed).toMatchObject({
        value: { args: [9007199254740993n, 'žluťoučký 🐎'], kwargs: { order: { id: 7 } } },
      });
      expect((later as { value: EchoResult }).value.at * 1_000).toBeGreaterThanOrEqual(
        eta.getTime(),
      );
      expect(late).toMatchObject({ state: 'REVOKED', type: 'TaskRevokedError' });
      expect(failed).toMatchObject({ state: 'FAILURE', type: 'RangeError', args: ['no funds'] });
      expect(named.map(({ type, module }) => `${module} ${type}`)).toEqual([
        'builtins ValueError',
        // One that would end the caller is one of this name only.
        'celery.exceptions SystemExit',
        'billiard.exceptions TimeLimitExceeded',
        'billiard.exceptions SoftTimeLimitExceeded',
      ]);
      expect([chained, both, summed].map(result => result?.value)).toEqual([8, [2, 4], 6]);
      expect(alarming).toMatchObject({ state: 'FAILURE', type: 'RangeError' });
      await until(async () => alarms.includes(ids[8] ?? ''));
    });

    it('what cannot be read, and every id and compression that can', async () => {
      const sent = (options: object, args: readonly unknown[] = ['ž']) =>
        call('ts.echo', { args, options: { ...options } });
      const deep = JSON.parse('['.repeat(300) + ']'.repeat(300)) as unknown[];
      const { outcomes } = await callFromPython(target, [
        ...['pickle', 'yaml'].map(serializer => sent({ serializer })),
        ...['bzip2', 'lzma'].map(compression => sent({ compression })),
        sent({}, deep),
        sent({ compression: 'zlib' }),
        sent({ task_id: `an id with spaces, ${broker}` }),
        sent({ task_id: `${broker}-${'x'.repeat(200)}` }),
      ]);
      const answers = await outcomes;
      const refused = { state: 'FAILURE', type: 'DecodeError', module: 'kombu.exceptions' };
      for (const answer of answers.slice(0, 5)) expect(answer).toMatchObject(refused);
      expect(answers.map(({ args }) => args?.[0])).toMatchObject([
        expect.stringContaining('content type is application/x-python-serialize'),
        expect.stringContaining('content type is application/x-yaml'),
        expect.stringContaining('compressed as application/x-bz2'),
        expect.stringContaining('compressed as application/x-lzma'),
        expect.stringContaining('deep'),
        undefined,
        undefined,
        undefined,
      ]);
      for (const answer of answers.slice(5))
        expect(answer).toMatchObject({ state: 'SUCCESS', value: { args: ['ž'] } });
    });

    it('a chain whose step failed: every later id of it has failed too', async () => {
      const failing = call('ts.fail', { args: ['no funds'] });
      const calls = [
        { chain: [failing, call('ts.add', { args: [1] }), theirs('interop.add', { args: [1] })] },
        { chain: [failing, { group: [call('ts.echo'), call('ts.echo')] }, call('ts.total')] },
        theirs('interop.replace', { args: [ours, 'ts.fail', 'ts.echo'] }),
      ];
      const { ids, outcomes } = await callFromPython(target, calls);
      const failed = { type: 'RangeError' };
      expect(await outcomes).toMatchObject([failed, failed, failed]);
      // get() asks the steps before it too, and may know it from them: these are the last ones.
      for (const id of ids) {
        const meta = await until(async () => {
          const text = (await store.command('get', `celery-task-meta-${id}`)) as Buffer | null;
          const read = JSON.parse(text?.toString() ?? '{}') as { readonly status?: string };
          return read.status === 'FAILURE' && read;
        });
        expect(meta).toMatchObject({ result: { exc_type: 'RangeError' }, children: [] });
        const awaited = outlast.find(tsEcho, id).result();
        await expect(awaited).rejects.toMatchObject({ code: 'ERR_TASK_FAILED', ...failed });
      }
    });

    it('error callbacks that take request, exception and traceback, with a decorator', async () => {
      const linkError = [theirs('interop.told')];
      const { ids, outcomes } = await callFromPython(target, [
        { ...call('ts.fail', { args: ['no funds', 'ValueError'] }), linkError },
        { ...theirs('interop.fail', { args: ['no funds'] }), linkError },
        {
          header: [call('ts.fail', { args: ['no funds'] }), call('ts.add', { args: [1, 1] })],
          body: { ...call('ts.total'), linkError },
        },
      ]);
      await outcomes;
      const told = await Promise.all(
        ids.map(id => until(() => store.command('lpop', `told:${id}`)).then(String)),
      );
      const body = expect.stringMatching(/^ChordError: Dependency .* raised RangeError/) as string;
      expect(told).toEqual(['ValueError: no funds', 'ValueError: no funds', body]);
    });

    it('a task that was revoked while it waited', async () => {
      const { ids, outcomes } = await callFromPython(target, [
        call('ts.echo', { options: { countdown: 3_600 } }),
      ]);
      const [id = ''] = ids;
      await until(async () => (await outlast.find(tsEcho, id).state()) === 'waiting');
      await runCelery(target, 'control', 'revoke', id);
      expect(await outcomes).toMatchObject([{ state: 'REVOKED', type: 'TaskRevokedError' }]);
    });

    it('a chain that alternates, and a chord with headers in both languages', async () => {
      const mixed = [
        call('ts.add', { args: [1, 1] }),
        theirs('interop.add', { args: [2, 2] }),
        call('ts.add', { args: [3, 3] }),
        theirs('interop.add', { args: [4, 4] }),
      ];
      const [mine, its] = [
        { first: call('ts.add', { args: [1, 1] }), next: call('ts.add', { args: [1] }) },
        {
          first: theirs('interop.add', { args: [1, 1] }),
          next: theirs('interop.add', { args: [1] }),
        },
      ];
      const { outcomes } = await callFromPython(target, [
        {
          chain: [
            theirs('interop.add', { args: [2, 2] }),
            call('ts.add', { args: [4] }),
            theirs('interop.add', { args: [8] }),
          ],
        },
        { header: mixed, body: call('ts.total') },
        { header: mixed, body: theirs('interop.total') },
        // Celery 5.2 has the second group in the options of the chain that is the body of the first.
        {
          chain: [
            { group: [call('ts.add', { args: [1, 1] }), theirs('interop.add', { args: [2, 2] })] },
            call('ts.total'),
            call('ts.add', { args: [4] }),
            { group: [call('ts.add', { args: [1] }), theirs('interop.add', { args: [2] })] },
            call('ts.total'),
          ],
        },
        // A chain that ends in a group is one part of the header, with a list of its own.
        ...[[mine, its] as const, [its, mine] as const].map(([one, other]) => ({
          header: [{ chain: [one.first, { group: [one.next, other.next] }] }, other.first],
          body: call('ts.echo'),
        })),
      ]);
      const values = (await outcomes).map(({ value }) => value);
      expect(values.slice(0, 4)).toEqual([16, 20, 20, 23]);
      expect(values.slice(4)).toMatchObject([{ args: [[[3, 3], 2]] }, { args: [[[3, 3], 2]] }]);
    });

    it('a chord whose part failed, in either language: its error link runs and its caller gets the error', async () => {
      const body = { ...call('ts.total'), linkError: [call('ts.alarm')] };
      const { ids } = await callFromPython(target, [
        {
          header: [theirs('interop.add', { args: [1, 1] }), call('ts.fail', { args: ['a'] })],
          body,
        },
        {
          header: [theirs('interop.fail', { args: ['b'] }), call('ts.add', { args: [1, 1] })],
          body,
        },
      ]);
      // get() raises the error of the part itself, if that comes first.
      for (const [index, id] of ids.entries()) {
        const raised = ["RangeError('a')", "ValueError('b')"][index];
        const text = await until(() => store.command('get', `celery-task-meta-${id}`));
        expect(JSON.parse(String(text))).toMatchObject({
          status: 'FAILURE',
          result: {
            exc_type: 'ChordError',
            exc_module: 'celery.exceptions',
            exc_message: [expect.stringMatching(/^Dependency \S+ raised /)],
          },
        });
        expect(String(text)).toContain(`raised ${raised}`);
      }
      await until(async () => ids.every(id => alarms.includes(id)));
      expect(alarms.filter(id => ids.includes(id))).toHaveLength(2);
    });
  });

  describe('from TypeScript to both', () => {
    it('along a chain that alternates', async () => {
      const [sent] = await outlast.transaction(tx =>
        outlast.sendMany(tx, [
          chain(
            add.with({ args: [2, 2] }),
            tsAdd.after({ args: [4] }),
            add.after({ args: [8] }),
            tsAdd.after({ args: [16] }),
          ),
        ]),
      );
      expect(await sent.result()).toBe(32);
    });

    it('along chains with groups at their beginning, in their middle and at their end', async () => {
      const first = group([add.with({ args: [1, 1] }), tsAdd.with({ args: [2, 2] })]);
      const middle = group([add.after({ args: [10] }), tsAdd.after({ args: [20] })]);
      const [mine, its] = [tsAdd.with({ args: [1, 1] }), add.with({ args: [1, 1] })];
      const sent = await outlast.transaction(tx =>
        outlast.sendMany(tx, [
          chain(first, total),
          chain(first, tsTotal, add.after({ args: [10] }), middle),
          chain(its, middle, total, tsAdd.after({ args: [5] })),
          chain(mine, middle, tsTotal, add.after({ args: [5] })),
          chain(its, middle),
          chain(mine, middle),
          chain(its, group([tsAdd.after({ args: [1] })]), tsTotal),
          chain(mine, group([add.after({ args: [1] })]), total),
        ]),
      );
      const results = await Promise.all(sent.map(handle => handle.result() as Promise<unknown>));
      expect(results).toEqual([6, [26, 36], 39, 39, [12, 22], [12, 22], 3, 3]);
    });

    it('in a chord with headers in both languages', async () => {
      const header = [
        add.with({ args: [1, 1] }),
        tsAdd.with({ args: [2, 2] }),
        add.with({ args: [3, 3] }),
        tsAdd.with({ args: [4, 4] }),
      ];
      const sent = await outlast.transaction(tx =>
        outlast.sendMany(tx, [chord(header, total), chord(header, tsTotal)]),
      );
      for (const handle of sent) expect(await handle.result()).toBe(20);
    });
  });
});

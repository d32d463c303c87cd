import type { ChildProcess } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  python,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { chain, chord } from '../../dist/task/index.js';
import type { PoolClient } from 'pg';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { endProcess, runScript, startCeleryWorker, type CeleryTarget } from './celery-kit.ts';

interface Shown {
  /** This Python marks the values that JSON does not have. */
  readonly marks: boolean;
  readonly shown: unknown;
}

/** Values beyond JSON, where results are answered at a queue and where they are in Celery's Redis. */
describe.each(['RabbitMQ', 'Redis'] as const)('values of Python on %s', broker => {
  const ours = unique('values');
  const its = `${ours}.python`;
  let database: MigratedDatabase;
  let redis: OwnRedis;
  let target: CeleryTarget;
  let worker: ChildProcess;
  let outlast: Outlast<PoolClient>;
  const services: Service[] = [];

  const loose = { queue: ours, args: unchecked<unknown[]>(), result: unchecked<unknown>() };
  const texts = task('ts.texts', {
    queue: ours,
    input: z.object({
      utc: z.iso.datetime().optional(),
      naive: z.iso.datetime({ local: true }).optional(),
      offset: z.iso.datetime({ offset: true }).optional(),
      day: z.coerce.date().optional(),
      clock: z.iso.time().optional(),
      amount: z.string().optional(),
      key: z.uuid().optional(),
      blob: z.array(z.instanceof(Uint8Array)).optional(),
    }),
    result: unchecked<unknown>(),
  });
  const same = task('ts.same', loose);
  const now = task('ts.now', loose);
  const typed = task('ts.typed', { queue: ours, result: unchecked<unknown>() });
  const give = task('interop.give', {
    queue: its,
    args: unchecked<[string]>(),
    result: unchecked<number>(),
  });
  const describeIt = task('interop.describe', {
    queue: its,
    args: unchecked<unknown[]>(),
    result: unchecked<unknown>(),
  });
  const describeAll = task('interop.describe', {
    queue: its,
    input: unchecked<unknown[]>(),
    result: unchecked<unknown>(),
  });

  beforeAll(async () => {
    [database, redis] = [await migratedDatabase('values'), await startRedis()];
    const isRabbit = broker === 'RabbitMQ';
    const url = isRabbit ? rabbitmqUrl() : redis.url;
    target = {
      broker: url.replace(/^(amqp:.*[^/])\/$/, '$1//'),
      backend: isRabbit ? 'rpc://' : redis.url,
      store: redis.url,
    };
    outlast = createOutlast({
      database: database.url,
      broker: url,
      adapter: fromPg(database.pool),
      ...(isRabbit ? {} : { ledger: redis.url }),
    });
    const tasks = [
      outlast.handler(texts, ({ day, blob = [], ...rest }) => ({
        ...rest,
        ...(day === undefined ? {} : { day: day.getFullYear() }),
        blob: blob.map(bytes => [...bytes].join(' ')),
      })),
      outlast.handler(same, ({ args }) => args[0]),
      outlast.handler(now, () => Date.now()),
      outlast.handler(typed, () => ({
        at: python.datetime(new Date(Date.UTC(2026, 2, 1))),
        day: python.date('2026-03-01'),
        clock: python.time('10:00:00'),
        amount: python.decimal('1.10'),
        key: python.uuid('12345678-1234-4678-9234-567812345678'),
        blob: Uint8Array.of(255, 0),
      })),
    ];
    worker = await startCeleryWorker(target, [its]);
    services.push(
      await startRelay(outlast),
      await startResurrector(outlast),
      await startWorker(outlast, { tasks, queues: [ours], idleTime: '100ms' }),
    );
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    await outlast.close();
    await endProcess(worker);
    if (broker === 'RabbitMQ') {
      const rabbit = await RabbitInspector.connect();
      for (const queue of [ours, its]) await rabbit.delete(queue);
      await rabbit.close();
    }
    await redis.dispose();
    await database.dispose();
  });

  const ask = async (name: string) => {
    const [answer] = await runScript<Shown>(target, 'values.py', ours, name);
    if (answer === undefined) throw new Error('no answer');
    return answer;
  };

  it('reach a handler as the same texts, whether this Python marks them or not', async () => {
    const { shown } = await ask('texts');
    expect(shown).toEqual({
      utc: "str '2026-03-01T10:00:00.000006Z'",
      naive: "str '2026-03-01T10:00:00.000006'",
      offset: "str '2026-03-01T12:00:00.000006+02:00'",
      day: 'int 2026',
      clock: "str '10:00:00'",
      amount: "str '1.10'",
      key: "str '12345678-1234-4678-9234-567812345678'",
      blob: [],
    });
  });

  it('reach a handler as bytes where they are bytes', async () => {
    const { marks, shown } = await ask('bytes');
    const blob = marks ? ["str '255 0'", "str '197 190 108 117 116 195 189'"] : [];
    expect(shown).toEqual({ blob });
  });

  const FLOATS = [
    'float 1.152921504606847e+18',
    'float 1e+16',
    'float -0.0',
    'float 1.5',
    'float nan',
    'float inf',
    'float -inf',
  ];

  it('stay floats when a handler returns them', async () => {
    expect((await ask('floats')).shown).toEqual([FLOATS]);
  });

  it('stay what they were when a worker of ours hands them on', async () => {
    const { marks, shown } = await ask('passed');
    const [one, floats, others] = shown as readonly unknown[];
    expect([one, floats]).toEqual(['int 1', ['float 1.0', ...FLOATS]]);
    expect(others).toMatchObject(
      marks
        ? { amount: "Decimal Decimal('1.10')", day: 'date datetime.date(2026, 3, 1)' }
        : { amount: "str '1.10'" },
    );
  });

  it('are times of later steps too', async () => {
    expect((await ask('later')).shown).toBe('bool True');
  });

  it('are returned by a handler in their own types', async () => {
    const { marks, shown } = await ask('returned');
    if (marks)
      expect(shown).toEqual({
        at: 'datetime datetime.datetime(2026, 3, 1, 0, 0, tzinfo=datetime.timezone.utc)',
        day: 'date datetime.date(2026, 3, 1)',
        clock: 'time datetime.time(10, 0)',
        amount: "Decimal Decimal('1.10')",
        key: "UUID UUID('12345678-1234-4678-9234-567812345678')",
        blob: "bytes b'\\xff\\x00'",
      });
    else expect(shown).toMatchObject({ amount: { __type__: "str 'decimal'" } });
  });

  it('stay what they were as results of a header, and reach a waiter here', async () => {
    const header = ['1.0', 'nan', '1e16'].map(text => give.with({ args: [text] }));
    const [body, kept] = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        chord(header, describeAll),
        chain(give.with({ args: ['nan'] }), same.after({ args: [] })),
      ]),
    );
    expect(await kept?.result()).toBe(Number.NaN);
    if (broker === 'Redis')
      expect(await body?.result()).toEqual([['float 1.0', 'float nan', 'float 1e+16']]);
  });

  it('are sent from here as floats', async () => {
    const [sent] = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        chain(describeIt.with({ args: [2 ** 60, -0, 1n, 1] }), same.after({ args: [] })),
      ]),
    );
    expect(await sent?.result()).toEqual([
      'float 1.152921504606847e+18',
      'float -0.0',
      'int 1',
      'int 1',
    ]);
  });
});

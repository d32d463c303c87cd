import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin } from '../../dist/admin/index.js';
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
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { endProcess, startCeleryWorker, type CeleryTarget } from './celery-kit.ts';
import { faultEnv } from '../support/fault-env.ts';

/** The ledger is in PostgreSQL, and Celery has a result backend that counts no chords. */
describe('chords with Python in their headers, counted in PostgreSQL', () => {
  const [python, ours, chordQueue] = [unique('python'), unique('ours'), unique('chords')];
  let database: MigratedDatabase;
  let redis: OwnRedis;
  let rabbit: RabbitInspector;
  let target: CeleryTarget;
  let worker: ChildProcess | null = null;
  let outlast: Outlast<PoolClient>;
  let services: Service[];
  const alarms: string[] = [];

  const numbers = { args: unchecked<number[]>(), result: unchecked<number>() };
  const list = { input: unchecked<number[]>(), result: unchecked<number>() };
  const add = task('interop.add', { queue: python, ...numbers });
  const fail = task('interop.fail', {
    queue: python,
    args: unchecked<[string]>(),
    result: unchecked<number>(),
  });
  const total = task('interop.total', { queue: python, ...list });
  const record = task('interop.record', { queue: python, args: unchecked<[string]>() });
  const tsAdd = task('ts.add', { queue: ours, ...numbers });
  const tsTotal = task('ts.total', { queue: ours, ...list });
  const tsAlarm = task('ts.alarm', { queue: ours, input: unchecked<string>() });
  const tsKeep = task('ts.keep', { queue: ours, input: unchecked<number>() });
  const kept: number[] = [];

  beforeAll(async () => {
    [database, redis] = [await migratedDatabase('chords'), await startRedis()];
    rabbit = await RabbitInspector.connect();
    target = {
      broker: rabbitmqUrl().replace(/\/$/, '//'),
      backend: 'rpc://',
      store: redis.url,
    };
    outlast = createOutlast({
      database: database.url,
      broker: { url: rabbitmqUrl(), chordQueue },
      adapter: fromPg(database.pool),
    });
    const sum = (all: readonly number[]) => all.reduce((one, other) => one + other, 0);
    const tasks = [
      outlast.handler(tsAdd, ({ args }) => sum(args)),
      outlast.handler(tsTotal, all => sum(all)),
      outlast.handler(tsAlarm, id => void alarms.push(id)),
      outlast.handler(tsKeep, value => void kept.push(value)),
    ];
    services = [
      await startRelay(outlast, { publishConcurrency: 50 }),
      await startWorker(outlast, { tasks, queues: [ours], idleTime: '100ms' }),
      await startResurrector(outlast),
    ];
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    await outlast.close();
    if (worker) await endProcess(worker);
    for (const queue of [python, ours, chordQueue]) await rabbit.delete(queue);
    await rabbit.close();
    await redis.dispose();
    await database.dispose();
  });

  const open = async () => (await createAdmin(outlast).stats({ top: 100 })).chords.oldest;

  it('are open from the commit of their sender until their body is sent', async () => {
    const sent = await outlast.transaction(async tx => {
      const handles = await outlast.sendMany(tx, [
        chord([add.with({ args: [1, 1] }), add.with({ args: [2, 2] })], tsTotal),
        chord([add.with({ args: [1, 1] }), tsAdd.with({ args: [2, 2] })], tsTotal),
        chord(
          [
            chain(tsAdd.with({ args: [1, 1] }), add.after({ args: [5] })),
            chain(add.with({ args: [2, 2] }), tsAdd.after({ args: [5] })),
          ],
          tsTotal,
        ),
        chord(
          [tsAdd.with({ args: [1, 1] }), add.with({ args: [3, 3] })],
          total.after(undefined, { link: tsKeep }),
        ),
      ]);
      expect(await open()).toEqual([]);
      return handles;
    });
    const shown = (await open()).map(({ body, size, failed }) => `${body} ${size} ${failed}`);
    expect(shown.toSorted()).toEqual([
      'interop.total 2 0',
      'ts.total 2 0',
      'ts.total 2 0',
      'ts.total 2 0',
    ]);
    worker = await startCeleryWorker(target, [python]);
    const [python1, mixed, chains] = sent;
    expect(await python1?.result()).toBe(6);
    expect(await mixed?.result()).toBe(6);
    expect(await chains?.result()).toBe(16);
    await until(async () => kept.includes(8));
    await until(async () => (await open()).length === 0);
  });

  it('continue from the middle of chains, whichever language sends their headers', async () => {
    const middle = group([add.after({ args: [10] }), tsAdd.after({ args: [20] })]);
    const [mine, its] = [tsAdd.with({ args: [1, 1] }), add.with({ args: [1, 1] })];
    const sent = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        chain(its, middle, tsTotal, tsAdd.after({ args: [5] })),
        chain(mine, middle, tsTotal, add.after({ args: [5] }), middle, tsTotal),
        chain(group([its, mine]), tsTotal, middle, tsTotal),
      ]),
    );
    const results = await Promise.all(sent.map(handle => handle.result() as Promise<unknown>));
    expect(results).toEqual([39, 108, 38]);
    await until(async () => (await open()).length === 0);
  });

  it('fail once with a part of theirs, and the waiter for the body gets the error', async () => {
    const body = tsTotal.after(undefined, { linkError: tsAlarm });
    const sent = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        chord([fail.with({ args: ['a'] }), fail.with({ args: ['b'] })], body),
        chord(
          [
            tsAdd.with({ args: [1, 1] }),
            chain(fail.with({ args: ['c'] }), add.after({ args: [] })),
          ],
          body,
        ),
      ]),
    );
    for (const handle of sent)
      await expect(handle.result()).rejects.toMatchObject({
        code: 'ERR_TASK_FAILED',
        type: 'ERR_CHORD_FAILED',
      });
    const ids = sent.map(({ id }) => id);
    await until(async () => (await open()).reduce((sum, { failed }) => sum + failed, 0) === 3);
    await until(async () => ids.every(id => alarms.includes(id)));
    expect(alarms.filter(id => ids.includes(id))).toHaveLength(2);
    const bodies = await database.pool.query('select 1 from outlast_task where id = any($1)', [
      ids,
    ]);
    expect(bodies.rowCount).toBe(0);
  });

  describe('whose parts are reported to a resurrector', () => {
    let store: RedisConnection;
    let project: CliProject;

    beforeAll(async () => {
      store = await RedisConnection.open({ url: redis.url, role: 'ledger', name: 'chords' });
      // Two missed heartbeats end a connection, and its messages are delivered elsewhere.
      const broker = `{ url: '${rabbitmqUrl()}?heartbeat=1', chordQueue: '${chordQueue}' }`;
      project = new CliProject(
        { 'outlast.config.mjs': `export default { broker: ${broker} };` },
        { OUTLAST_DATABASE_URL: database.url },
      );
    });

    afterAll(async () => {
      await project.dispose();
      store.close();
    });

    /** Stops everything that counts, so that reports stay in their queue. */
    const stopCounting = async () => await services.pop()?.stop();
    const count = async () => void services.push(await startResurrector(outlast));
    const resurrector = (fault: string) =>
      project.start(['resurrector'], faultEnv(`chord.reported-not-acked:${fault}`));

    /** Python runs what it is sent: a body that is sent twice appears here twice. */
    const ran = async (key: string) =>
      ((await store.command('lrange', key, 0, -1)) as readonly Buffer[]).map(String);
    const send = async (key: string, ...parts: number[]) => {
      const header = parts.map(n => add.with({ args: [n, 1] }));
      const body = record.with({ args: [key] });
      const [sent] = await outlast.transaction(tx => outlast.sendMany(tx, [chord(header, body)]));
      return sent?.id ?? '';
    };
    const depth = async () => (await rabbit.depth(chordQueue)) ?? 0;
    const isOurs = ({ failed }: { readonly failed: number }) => failed === 0;
    const isOver = async () => (await open()).every(chordOpen => !isOurs(chordOpen));
    /** Messages that were on their way to Python before this have arrived. */
    const bodiesOf = async (key: string) => {
      const last = await send(key, 98);
      return await until(async () => {
        const found = await ran(key);
        return found.includes(last) && found.filter(id => id !== last);
      });
    };

    it('count a part once that is reported twice, also when a resurrector was killed between counting and acknowledging', async () => {
      await stopCounting();
      const sent = await send('killed', 30, 40);
      await until(async () => (await depth()) === 2);
      const take = async () =>
        await rabbit.with(async channel => {
          const message = await channel.get(chordQueue, { noAck: true });
          if (message === false) throw new Error('no part was reported');
          return message;
        });
      const [first, second] = [await take(), await take()];
      const tell = async ({ content, properties }: typeof first) =>
        await rabbit.with(async channel => channel.sendToQueue(chordQueue, content, properties));
      await tell(first);
      await tell(first);
      expect((await resurrector('kill:1').ended).signal).toBe('SIGKILL');
      await until(async () => (await depth()) > 0);
      await count();
      await until(async () => (await depth()) === 0);
      expect((await open()).filter(isOurs)).toMatchObject([{ parts: 1, size: 2 }]);
      await tell(second);
      await until(async () => (await ran('killed')).length === 1);
      await until(isOver);
      await tell(second);
      expect(await bodiesOf('killed')).toEqual([sent]);
    });

    it('have one body when a resurrector sleeps there until others have counted, and wakes', async () => {
      await stopCounting();
      const sent = await send('asleep', 30, 40);
      await until(async () => (await depth()) === 2);
      const hit = join(project.folder, 'asleep');
      const sleeper = resurrector(`stop:1:${hit}`);
      await until(async () => existsSync(hit));
      // It has acknowledged nothing yet: all messages are redelivered when its connection has timed out.
      await until(async () => (await depth()) === 2);
      await count();
      await until(async () => (await depth()) === 0);
      await stopCounting();
      // The messages it held are not its own any more; new ones it counts.
      const next = await send('asleep', 50, 60);
      await until(async () => (await depth()) === 2);
      sleeper.signal('SIGCONT');
      await until(async () => (await ran('asleep')).includes(next));
      await until(isOver);
      expect((await sleeper.stop()).code).toBe(0);
      await count();
      expect(await bodiesOf('asleep')).toEqual([sent, next]);
    });
  });
});

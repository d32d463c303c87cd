import { expect, it, onTestFinished } from 'vitest';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until } from '../support/database.ts';
import { freePort, startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import {
  endProcess,
  hasFlower,
  sendFromPython,
  startFlower,
  type CeleryTarget,
} from './celery-kit.ts';
import { handlerOf, startFleetWorker } from './fleet-kit.ts';

type Table = Readonly<Record<string, unknown>>;

it.runIf(hasFlower()).each(['RabbitMQ', 'Redis'])(
  'Flower shows our worker and its tasks on %s, and steers them',
  async kind => {
    const redis = await startRedis();
    onTestFinished(() => redis.dispose());
    const database = await migratedDatabase('flower');
    onTestFinished(() => database.dispose());
    const broker = kind === 'Redis' ? redis.url : rabbitmqUrl();
    const target: CeleryTarget = { broker, backend: redis.url };
    const [queue, extra] = [unique('ours'), unique('extra')];
    const aborted: string[] = [];
    const handlers = [
      handlerOf('ts.sum', queue, ([a, b]) => Number(a) + Number(b)),
      handlerOf('ts.extra', extra, () => null),
      handlerOf(
        'ts.long',
        queue,
        (_, ctx) =>
          new Promise((_done, fail) => {
            ctx.signal.addEventListener('abort', () => {
              aborted.push(ctx.id);
              fail(new Error('aborted'));
            });
          }),
      ),
    ];
    const worker = { queues: [queue] };
    const given = { database: database.url, broker, ledger: redis.url };
    const { node } = await startFleetWorker({ ...given, handlers, worker });
    const port = await freePort();
    const flower = await startFlower(target, port);
    onTestFinished(() => endProcess(flower));

    const ask = async (path: string, method = 'GET'): Promise<Table> => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method });
      return { status: answer.status, ...((await answer.json().catch(() => ({}))) as Table) };
    };
    // Its page of workers, with what it asks each of them.
    const shown = await until(async () => {
      const found = await ask(`/api/workers?refresh=1&workername=${node}`);
      const info = found[node] as Table | undefined;
      return info?.['stats'] !== undefined && info;
    });
    expect(shown['registered']).toEqual(['ts.extra', 'ts.long', 'ts.sum']);
    expect(shown).toMatchObject({ conf: { worker_concurrency: 4 }, scheduled: [], reserved: [] });

    // Flower turns events on five seconds after it has started; before that it learns of no task.
    await until(async () => (await ask('/api/workers?status=1'))[node] === true);

    const [done, long] = [unique('done'), unique('long')];
    await sendFromPython(target, [
      { name: 'ts.sum', args: [2, 3], options: { queue, task_id: done } },
      { name: 'ts.long', options: { queue, task_id: long } },
    ]);
    const told = (id: string, state: string): Promise<Table> =>
      until(async () => {
        const info = await ask(`/api/task/info/${id}`);
        return info['state'] === state && info;
      });
    expect(await told(done, 'SUCCESS')).toMatchObject({
      name: 'ts.sum',
      result: '5',
      args: '[2, 3]',
    });
    await told(long, 'STARTED');
    expect(Object.keys(await ask('/api/tasks'))).toEqual(expect.arrayContaining([done, long]));

    expect(await ask(`/api/task/revoke/${long}?terminate=1`, 'POST')).toMatchObject({
      status: 200,
    });
    await until(() => Promise.resolve(aborted.includes(long)));
    await told(long, 'REVOKED');
    const control = (what: string): Promise<Table> => ask(`/api/worker/${what}`, 'POST');
    expect(await control(`queue/add-consumer/${node}?queue=${extra}`)).toMatchObject({
      status: 200,
      message: `add consumer ${extra}`,
    });
    expect(await control(`pool/grow/${node}?n=1`)).toMatchObject({ status: 403 });
    expect(await ask('/workers')).toMatchObject({ status: 200 });
    expect(await ask(`/worker/${node}`)).toMatchObject({ status: 200 });
    expect(await ask(`/task/${done}`)).toMatchObject({ status: 200 });
    expect(await control(`shutdown/${node}`)).toMatchObject({ status: 200 });
  },
);

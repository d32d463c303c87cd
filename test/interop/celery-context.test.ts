import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  chain,
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  withContext,
  type Outlast,
} from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { endProcess, startCeleryWorker } from './celery-kit.ts';

const [PYTHON, OURS] = [unique('python'), unique('ours')];
const CONTEXT = { requestId: 'r-17', user: 'ann' };

let database: MigratedDatabase;
let server: OwnRedis;
let outlast: Outlast<PoolClient>;

beforeAll(async () => {
  [database, server] = [await migratedDatabase('celery_context'), await startRedis()];
  outlast = createOutlast({
    database: database.url,
    broker: rabbitmqUrl(),
    ledger: server.url,
    context: ['requestId', 'user'],
    adapter: fromPg(database.pool),
  });
});

afterAll(async () => {
  await outlast.close();
  await server.dispose();
  await database.dispose();
});

it('context goes through a Python worker to the next step, and is in its headers', async () => {
  const carried = task('interop.carried', {
    queue: PYTHON,
    args: unchecked<unknown[]>(),
    result: unchecked<Record<string, string>>(),
  });
  const last = task(unique('ts.last'), {
    queue: OURS,
    input: unchecked<Record<string, string>>(),
    result: unchecked<readonly unknown[]>(),
  });
  const handler = outlast.handler(last, (input, ctx) => [input, ctx.context]);
  const target = { broker: rabbitmqUrl().replace(/\/$/, '//'), backend: server.url };
  const python = await startCeleryWorker(target, [PYTHON]);
  const relay = await startRelay(outlast);
  const worker = await startWorker(outlast, { tasks: [handler], queues: [OURS] });
  try {
    const [sent] = await withContext(CONTEXT, () =>
      outlast.transaction(tx => outlast.sendMany(tx, [chain(carried.with({ args: [] }), last)])),
    );
    const [inPython, here] = await sent.result({ timeout: '120s' });
    expect(inPython).toMatchObject(CONTEXT);
    expect(here).toEqual(CONTEXT);
  } finally {
    await worker.stop();
    await relay.stop();
    await endProcess(python);
  }
});

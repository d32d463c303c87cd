import * as Sentry from '@sentry/node';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createOutlast, startWorker, task, unchecked, type Outlast } from '../../dist/index.js';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const SECRET = 'marker-5e7c1';
const shape = { input: unchecked<string>(), result: unchecked<string>() };
const first = task('sentry.first', shape);
const next = task('sentry.next', shape);
const fails = task('sentry.fails', shape);

const reported: string[] = [];
let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;

beforeAll(async () => {
  // Nothing leaves the process: the transport keeps what it is given.
  Sentry.init({
    dsn: 'http://key@127.0.0.1:9/1',
    tracesSampleRate: 1,
    defaultIntegrations: false,
    transport: () => ({
      send: async envelope => {
        reported.push(JSON.stringify(envelope));
        return {};
      },
      flush: async () => true,
    }),
  });
  database = await migratedDatabase('sentry');
  const traces = { sentry: Sentry, capture: 'dead' } as const;
  outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool), traces });
});

afterAll(async () => {
  await outlast.close();
  await database.dispose();
  await Sentry.close();
});

const traceId = (): string | undefined => Sentry.getTraceData()['sentry-trace']?.slice(0, 32);

it('its trace goes from the request through a task and what that sends, and a dead letter is an event with the task', async () => {
  const handlers = [
    outlast.handler(first, async () => {
      const sent = await outlast.push(next, SECRET);
      return `${traceId()} ${sent.id}`;
    }),
    outlast.handler(next, () => traceId() ?? ''),
    outlast.handler(fails, {
      retry: { maxAttempts: 2, backoff: '1ms' },
      run: () => {
        throw new RangeError('no funds');
      },
    }),
  ];
  const worker = await startWorker(outlast, { tasks: handlers });
  try {
    const [trace, one, two] = await Sentry.startSpan(
      { name: 'GET /orders' },
      async () =>
        [traceId(), await outlast.push(first, SECRET), await outlast.push(fails, SECRET)] as const,
    );
    const [inFirst, id = ''] = (await one.result({ timeout: '60s' })).split(' ');
    expect(inFirst).toBe(trace);
    const { rows } = await database.pool.query<{ options: string }>(
      `select convert_from(options, 'UTF8') as options from outlast_task where id = $1`,
      [one.id],
    );
    expect(rows[0]?.options).toMatch(
      new RegExp(`"sentry-trace":"${trace}-.*"baggage":".*sentry-trace_id=${trace}`),
    );
    expect(await outlast.find(next, id).result({ timeout: '60s' })).toBe(trace);
    await expect(two.result({ timeout: '60s' })).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
    const broken = { 'sentry-trace': 'nonsense', baggage: `a=${'x'.repeat(9_000)}` };
    const other = await outlast.push(next, SECRET, { headers: broken });
    expect(await other.result({ timeout: '60s' })).toMatch(/^(?!undefined)[0-9a-f]{32}$/);
  } finally {
    await worker.stop();
  }
  await Sentry.flush();
  const events = reported.filter(text => text.includes('"type":"event"'));
  expect(events).toHaveLength(1);
  expect(events[0]).toContain('"value":"no funds"');
  expect(events[0]).toMatch(
    /"outlast":\{"id":"[^"]+","name":"sentry.fails","queue":"default","epoch":\d+,"attempt":2/,
  );
  expect(reported.join()).not.toContain(SECRET);
});

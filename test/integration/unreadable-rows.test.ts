import { trace } from '@opentelemetry/api';
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

async function setup(): Promise<MigratedDatabase> {
  const database = await migratedDatabase('unreadable');
  onTestFinished(() => database.dispose());
  return database;
}

/** Traces read the options of a task before it runs. */
function traceEverything(): void {
  trace.setGlobalTracerProvider(new BasicTracerProvider());
  onTestFinished(() => trace.disable());
}

const echo = task('unreadable.echo', { input: unchecked<number>(), result: unchecked<number>() });

/** What a user of psql may do to a waiting task, and the reason of the dead letter it becomes. */
const TASKS: readonly (readonly [change: string, reason: string])[] = [
  ['epoch = 9223372036854775807', 'ERR_UNDECODABLE'],
  ['epoch = 9007199254740993', 'ERR_UNDECODABLE'],
  [`body = 'no JSON'`, 'ERR_DIGEST'],
  [`digest = null`, 'ERR_DIGEST'],
  [`digest = 'another'`, 'ERR_DIGEST'],
  [`body = '[', digest = encode(sha256('['), 'hex')`, 'ERR_'],
  [`options = 'no JSON'`, 'ERR_'],
  [`options = 'no JSON, "outlast-context":"a"'`, 'ERR_'],
  [`options = 'no JSON, "traceparent":"00-1"'`, 'ERR_'],
  [`version = 2147483647, digest = 'another'`, 'ERR_DIGEST'],
  // Its handler throws.
  ['failures = 2147483647', 'ERR_ATTEMPTS_SPENT'],
];
/** These are odd, and run. */
const HARMLESS = [
  `eta = 'infinity'`,
  `expires_at = 'infinity'`,
  `due = '-infinity'`,
  `history = 'no lines'`,
  `checkpoint = 'no JSON'`,
  'crashes = -5',
];

describe('ledger rows that another program has changed', () => {
  it('become dead letters one by one, and the worker continues with the others', async () => {
    const { url, pool } = await setup();
    traceEverything();
    const outlast = createOutlast({ database: url, traces: { opentelemetry: true } });
    const count = TASKS.length + HARMLESS.length + 5;
    const handles = await outlast.transaction(tx =>
      outlast.sendMany(
        tx,
        Array.from({ length: count }, (_, n) => echo.with(n)),
      ),
    );
    const relay = await startRelay(outlast, { idleTime: '20ms' });
    await until(async () => (await pool.query('select 1 from outlast_task')).rowCount === count);
    await relay.stop();
    const changes = [...TASKS.map(([change]) => change), ...HARMLESS];
    for (const [at, change] of changes.entries())
      await pool.query(`update outlast_task set ${change} where id = $1`, [handles[at]?.id]);
    // It is never due, and every idle worker asks about it.
    await pool.query(`insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, due)
      select 'never', name, queue, priority, payload_version, body, options, digest, 'waiting', 'infinity' from outlast_task limit 1`);
    const handler = outlast.handler(echo, n => {
      if (n === TASKS.length - 1) throw new Error('no');
      return n;
    });
    const worker = await startWorker(outlast, {
      tasks: [handler],
      concurrency: 20,
    });
    const resurrector = await startResurrector(outlast);
    for (const handle of handles.slice(TASKS.length))
      await until(async () => (await handle.state()) === 'done');
    for (const [at, [, reason]] of TASKS.entries()) {
      const id = handles[at]?.id;
      const [letter] = await until(async () => {
        const { rows } = await pool.query(
          `select reason from outlast_task where id = $1 and state = 'dead'`,
          [id],
        );
        return rows.length > 0 && (rows as { readonly reason: string }[]);
      });
      expect(letter?.reason).toContain(reason);
    }
    const later = await outlast.transaction(tx => outlast.send(tx, echo, 100));
    const again = await startRelay(outlast, { idleTime: '20ms' });
    expect(await later.result()).toBe(100);
    await again.stop();
    await worker.stop();
    await resurrector.stop();
    await outlast.close();
  });
});

describe('a follow-up that another program has changed', () => {
  it('becomes a dead letter with its bytes, and the resurrector continues', async () => {
    const { url, pool } = await setup();
    const outlast = createOutlast({ database: url });
    const texts = [
      'no JSON',
      '{}',
      'null',
      '{"part":{}}',
      '{"reply":7}',
      '{"id":7,"body":"","options":""}',
    ];
    for (const text of texts)
      await pool.query(
        `insert into outlast_after (key, entry, due) values ($1, convert_to($1, 'UTF8'), '2020-01-01')`,
        [text],
      );
    const resurrector = await startResurrector(outlast);
    await until(async () => (await pool.query('select 1 from outlast_after')).rowCount === 0);
    const { rows } = await pool.query<{ readonly letter: string }>(
      `select reason || ' ' || convert_from(body, 'UTF8') as letter from outlast_task where state = 'dead'`,
    );
    const letters = rows.map(({ letter }) => letter);
    expect(letters.toSorted()).toEqual(texts.map(text => `ERR_UNDECODABLE ${text}`).toSorted());
    await resurrector.stop();
    await outlast.close();
  });
});

const UNREADABLE = 'no JSON, "receipt":true';

describe('an outbox row whose options cannot be read', () => {
  it.each([
    ['Redis', redisUrl],
    ['RabbitMQ', rabbitmqUrl],
  ])('is a dead letter of a relay to %s at its first try, with its bytes', async (_, broker) => {
    const { url, pool } = await setup();
    await using outlast = createOutlast({ database: url, broker: broker(), ledger: redisUrl() });
    const died: string[] = [];
    outlast.on('task:dead-lettered', ({ reason }) => void died.push(reason));
    const { id } = await outlast.transaction(tx => outlast.send(tx, echo, 1));
    await pool.query('update outlast_outbox set options = $1', [Buffer.from(UNREADABLE)]);
    const relay = await startRelay(outlast, { idleTime: '20ms', maxRetries: 5 });
    await until(async () => died.length > 0);
    await relay.stop();
    expect(died).toEqual(['ERR_UNDECODABLE']);
    const { rows } = await pool.query(
      `select task_id as id, convert_from(options, 'UTF8') as options, retries from outlast_dead_letter`,
    );
    expect(rows).toEqual([{ id, options: UNREADABLE, retries: 1 }]);
    const letter = await createAdmin(outlast).deadLetters.show(id);
    expect(letter).toMatchObject({ id, where: 'relay', reason: 'ERR_UNDECODABLE' });
  });
});

describe('outbox rows that another program has changed', () => {
  const CHANGES = [
    `eta = 'infinity'`,
    `available_at = '-infinity'`,
    `options = 'no JSON'`,
    `options = 'no JSON, "outlast-context":"a"'`,
    `options = '{"headers":{"outlast-context":7}}'`,
    `options = 'no JSON, "traceparent":"00-1"'`,
    `options = '{"headers":null,"rest":{"traceparent":7}}'`,
    'claims = 2147483647',
    'retries = 32767',
  ];

  it.each([
    // Rows with an ordering key are those that wait in the outbox where there is no broker.
    ['a worker without a broker', () => ({})],
    ['a relay to Redis', () => ({ broker: redisUrl() })],
  ])('do not stop %s from moving the others', async (_mover, more) => {
    const { url, pool } = await setup();
    traceEverything();
    const outlast = createOutlast({
      database: url,
      traces: { opentelemetry: true },
      ...more(),
    });
    const count = CHANGES.length + 3;
    const handles = await outlast.transaction(tx =>
      outlast.sendMany(
        tx,
        Array.from({ length: count }, (_, n) => echo.with(n, { orderingKey: `key-${n}` })),
      ),
    );
    for (const [at, change] of CHANGES.entries()) {
      const changing = `update outlast_outbox set ${change} where task_id = $1`;
      expect((await pool.query(changing, [handles[at]?.id])).rowCount, change).toBe(1);
    }
    const relay = await startRelay(outlast, { idleTime: '20ms' });
    const others = handles.slice(CHANGES.length).map(({ id }) => id);
    const waiting = 'select 1 from outlast_outbox where task_id = any($1)';
    await until(async () => (await pool.query(waiting, [others])).rowCount === 0);
    await relay.stop();
    await outlast.close();
  });
});

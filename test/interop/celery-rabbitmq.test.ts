import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type Service,
  type TaskContext,
} from '../../dist/index.js';
import type { PoolClient } from 'pg';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { celeryMeta } from '../support/celery-meta.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import {
  endProcess,
  sendFromPython,
  startCeleryWorker,
  type CeleryCall,
  type CeleryTarget,
} from './celery-kit.ts';

const PYTHON = unique('python');

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;
let relay: Service;
let rabbit: RabbitInspector;
let server: OwnRedis;
let results: RedisConnection;
let target: CeleryTarget;
let python: ChildProcess;

beforeAll(async () => {
  [database, server] = [await migratedDatabase('celery'), await startRedis()];
  rabbit = await RabbitInspector.connect();
  target = { broker: rabbitmqUrl().replace(/\/$/, '//'), backend: server.url };
  python = await startCeleryWorker(target, [PYTHON]);
  results = await RedisConnection.open({ url: server.url, role: 'ledger', name: 'results' });
  outlast = connect();
  relay = await startRelay(outlast, { publishConcurrency: 50 });
});

afterAll(async () => {
  await relay.stop();
  await outlast.close();
  results.close();
  await endProcess(python);
  await rabbit.close();
  await server.dispose();
  await database.dispose();
});

function connect(): Outlast<PoolClient> {
  return createOutlast({
    database: database.url,
    broker: rabbitmqUrl(),
    adapter: fromPg(database.pool),
  });
}

/** Tasks that Python runs: a contract, and no handler here. */
const loose = { args: unchecked<unknown[]>(), kwargs: unchecked<object>() };
const echo = task('interop.echo', { queue: PYTHON, ...loose });
const headersTask = task('interop.headers', {
  queue: PYTHON,
  timeout: '300s',
  softTimeout: '200ms',
});

/** What a Celery worker stored, as text and read. */
async function storedResult(
  id: string,
): Promise<{ status: string; result: unknown; text: string }> {
  const text = await celeryMeta(results, id);
  return { ...(JSON.parse(text) as { status: string; result: unknown }), text };
}

type Send = Parameters<typeof echo.with>;

async function runOnPython(...[input, options]: Send): ReturnType<typeof storedResult> {
  const sent = await outlast.transaction(tx => outlast.send(tx, echo, input, options));
  return await storedResult(sent.id);
}

describe('a task sent through the outbox is run by a Celery worker', () => {
  it('with its arguments and keyword arguments', async () => {
    const args = [1, 'two', [3.5, null, true]];
    const kwargs = { order: { id: 7 }, tags: ['a'] };
    expect(await runOnPython({ args, kwargs })).toMatchObject({
      status: 'SUCCESS',
      result: { args, kwargs },
    });
  });

  it('in every script, with NUL and escapes', async () => {
    const text = 'žluťoučký 🐎 \u0000 "\\ \u2028 日本';
    expect(await runOnPython({ args: [text], kwargs: { [text]: 1 } })).toMatchObject({
      result: { args: [text], kwargs: { [text]: 1 } },
    });
  });

  it('with integers beyond the range of a JavaScript number', async () => {
    const { text } = await runOnPython({ args: [2n ** 53n + 1n, 2n ** 70n], kwargs: {} });
    expect(text).toContain('[9007199254740993, 1180591620717411303424]');
  });

  it('not before its eta, whether it waits in our database or in its worker', async () => {
    const eta = new Date(Date.now() + 1_500);
    const pushed = await outlast.push(echo, { args: [], kwargs: {} }, { eta });
    const stored = [
      await runOnPython({ args: [], kwargs: {} }, { eta }),
      await storedResult(pushed.id),
    ];
    for (const { result } of stored)
      expect((result as { at: number }).at * 1_000).toBeGreaterThanOrEqual(eta.getTime());
  });

  it('before it expires, and not after', async () => {
    const input = { args: [], kwargs: {} };
    expect(await runOnPython(input, { expires: new Date(Date.now() - 1_000) })).toMatchObject({
      status: 'REVOKED',
      result: { exc_type: 'TaskRevokedError' },
    });
    expect(await runOnPython(input, { expires: '1h' })).toMatchObject({ status: 'SUCCESS' });
  });

  it('with headers and limits where Celery expects them, and its connection stays open', async () => {
    const headers = { region: 'eu', hostname: 'mine', CC: 'nobody' };
    const sent = await outlast.transaction(tx =>
      outlast.send(tx, headersTask, undefined, { headers, priority: 7 }),
    );
    expect((await storedResult(sent.id)).result).toEqual({
      region: 'eu',
      origin: expect.stringMatching(/^gen\d+@/) as string,
      root_id: sent.id,
      timelimit: [300, 0.2],
      priority: 7,
    });
    expect(await runOnPython({ args: ['after'], kwargs: {} })).toMatchObject({ status: 'SUCCESS' });
  });
});

interface Seen {
  readonly input: unknown;
  readonly at: number;
  readonly headers: TaskContext['headers'];
}

describe('a task sent by a Celery producer is run by our worker', () => {
  const queue = unique('typescript');
  const name = unique('ts.echo');
  const seen = new Map<string, Seen>();
  let worker: Service;

  beforeAll(async () => {
    const contract = task(name, { queue, ...loose });
    const handler = outlast.handler(contract, (input, { id, headers }) => {
      seen.set(id, { input, headers, at: Date.now() });
    });
    worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
  });
  afterAll(async () => {
    await worker.stop();
    // A message that a worker still held would be back: also the task of 2099 was acknowledged.
    expect(await rabbit.depth(queue)).toBe(0);
  });

  const send = async (call: Omit<CeleryCall, 'name'>): Promise<string> => {
    const id = randomUUID();
    const options = { queue, task_id: id, ...call.options };
    await sendFromPython(target, [{ ...call, name, options }]);
    return id;
  };
  const ran = (id: string): Promise<Seen> => until(async () => seen.get(id));
  const stateOf = async (id: string): Promise<string | undefined> => {
    const text = 'select state, ending from outlast_task where id = $1';
    const { rows } = await database.pool.query<{ state: string; ending: string }>(text, [id]);
    return rows[0]?.ending ?? rows[0]?.state;
  };

  it('with its arguments and keyword arguments, in every script', async () => {
    const args = ['žluťoučký 🐎 \u0000', null, 1.5];
    const kwargs = { order: { id: 7 } };
    const { input } = await ran(await send({ args, kwargs }));
    expect(input).toEqual({ args, kwargs });
  });

  it('with integers of any size, in its arguments and in its headers', async () => {
    const id = randomUUID();
    const options = `{"queue":"${queue}","task_id":"${id}","headers":{"big":1099511627776,"n":300}}`;
    await sendFromPython(
      target,
      `[{"name":"${name}","args":[9007199254740993],"options":${options}}]`,
    );
    const { input, headers } = await ran(id);
    expect(input).toMatchObject({ args: [9007199254740993n] });
    expect(headers).toEqual({ big: '1099511627776', n: '300' });
  });

  it('not before its eta, and no worker holds its message meanwhile', async () => {
    const eta = new Date(Date.now() + 1_500);
    const soon = await send({ options: { eta: eta.toISOString().replace('Z', '+00:00') } });
    const later = await send({ options: { eta: '2099-01-01T00:00:00+00:00' } });
    await until(async () => (await stateOf(later)) === 'waiting');
    expect((await ran(soon)).at).toBeGreaterThanOrEqual(eta.getTime());
    expect(seen.has(later)).toBe(false);
  });

  it('before it expires, and not after', async () => {
    const inTime = await send({ options: { expires: 3_600 } });
    await ran(inTime);
    // A Celery producer also makes RabbitMQ drop expired messages; this one arrives just in time.
    const late = randomUUID();
    const headers = { lang: 'py', task: name, id: late, expires: '2020-01-01T00:00:00+00:00' };
    await rabbit.with(async channel => {
      const body = Buffer.from('[[], {}, {}]');
      channel.sendToQueue(queue, body, { headers, contentType: 'application/json' });
    });
    expect(await until(() => stateOf(late))).toBe('expired');
    expect(seen.has(late)).toBe(false);
  });

  it('when it is compressed, and not when it is pickled', async () => {
    const zipped = await send({ args: ['zipped'], options: { compression: 'gzip' } });
    expect((await ran(zipped)).input).toMatchObject({ args: ['zipped'] });
    const pickled = await send({ options: { serializer: 'pickle' } });
    const text = `select reason from outlast_task where queue = $1 and state = 'dead'`;
    const { rows } = await until(async () => {
      const found = await database.pool.query<{ reason: string }>(text, [queue]);
      return found.rowCount === 1 && found;
    });
    expect(rows).toEqual([{ reason: 'ERR_UNDECODABLE' }]);
    expect(seen.has(pickled)).toBe(false);
  });
});

import { randomUUID } from 'node:crypto';
import type { ChildProcess } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openRedisBroker, type RedisBroker } from '../../src/adapters/redis/redis-broker.ts';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import type { Delivery } from '../../src/broker/broker.ts';
import { digestOf } from '../../src/task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../../src/task/envelope.ts';
import { unique } from '../conformance/envelopes.ts';
import { celeryMeta } from '../support/celery-meta.ts';
import { until } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import {
  endProcess,
  sendFromPython,
  startCeleryWorker,
  type CeleryCall,
  type CeleryTarget,
} from './celery-kit.ts';

const HOUR_MS = 3_600_000;
const QUEUE = 'shared';

let server: OwnRedis;
let target: CeleryTarget;
let worker: ChildProcess;
let broker: RedisBroker;
let results: RedisConnection;

beforeAll(async () => {
  server = await startRedis();
  target = { broker: server.url, backend: server.url.replace(/0$/, '1') };
  worker = await startCeleryWorker(target, [QUEUE]);
  broker = await openRedisBroker(target.broker);
  results = await RedisConnection.open({ url: target.backend, role: 'ledger', name: 'results' });
});

afterAll(async () => {
  await broker.close();
  results.close();
  await endProcess(worker);
  await server.dispose();
});

interface Making extends Partial<Pick<Envelope, 'queue' | 'priority' | 'etaMs' | 'expiresMs'>> {
  readonly args?: string;
  readonly kwargs?: string;
  readonly options?: EnvelopeOptions;
}

/** A task as the outbox would hold it: args and kwargs are JSON texts. */
function call(name: string, making: Making = {}): Envelope {
  const { args = '[]', kwargs = '{}', options = {}, ...fields } = making;
  const embed = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}';
  const body = new TextEncoder().encode(`[${args},${kwargs},${embed}]`);
  const named = { id: randomUUID(), name, version: 1 };
  return {
    queue: QUEUE,
    priority: 0,
    etaMs: null,
    expiresMs: null,
    ...fields,
    ...named,
    body,
    options: new TextEncoder().encode(JSON.stringify(options)),
    digest: digestOf({ ...named, body }),
  };
}

interface CeleryResult {
  readonly status: string;
  readonly result: unknown;
}

/** What a Celery worker stored, as text and read. */
async function resultOf({ id }: Envelope): Promise<CeleryResult & { readonly text: string }> {
  const text = await celeryMeta(results, id);
  return { ...(JSON.parse(text) as CeleryResult), text };
}

async function runOnPython(message: Envelope): ReturnType<typeof resultOf> {
  expect(await broker.publish([message])).toEqual([{ status: 'confirmed' }]);
  return await resultOf(message);
}

describe('a task that we publish is run by a Celery worker', () => {
  it('with its arguments', async () => {
    const message = call('interop.echo', { args: '[1,"two",[3.5,null,true]]' });
    expect(await runOnPython(message)).toMatchObject({
      status: 'SUCCESS',
      result: { args: [1, 'two', [3.5, null, true]], kwargs: {} },
    });
  });

  it('with its keyword arguments', async () => {
    const message = call('interop.echo', { kwargs: '{"order":{"id":7},"tags":["a"]}' });
    expect(await runOnPython(message)).toMatchObject({
      result: { args: [], kwargs: { order: { id: 7 }, tags: ['a'] } },
    });
  });

  it('in every script, with NUL and escapes', async () => {
    const text = 'žluťoučký 🐎 \u0000 "\\ \u2028 日本';
    const message = call('interop.echo', { args: JSON.stringify([text]) });
    expect(await runOnPython(message)).toMatchObject({ result: { args: [text] } });
  });

  it('with integers beyond the range of a JavaScript number', async () => {
    const message = call('interop.echo', { args: '[9007199254740993,123456789012345678901234]' });
    const { text } = await runOnPython(message);
    expect(text).toContain('[9007199254740993, 123456789012345678901234]');
  });

  it('not before its eta', async () => {
    const etaMs = Date.now() + 1_500;
    const { result } = await runOnPython(call('interop.echo', { etaMs }));
    expect((result as { at: number }).at * 1_000).toBeGreaterThanOrEqual(etaMs);
  });

  it('before it expires, and not after', async () => {
    const late = call('interop.echo', { expiresMs: Date.now() - 1_000 });
    const inTime = call('interop.echo', { expiresMs: Date.now() + HOUR_MS });
    expect(await runOnPython(late)).toMatchObject({
      status: 'REVOKED',
      result: { exc_type: 'TaskRevokedError' },
    });
    expect(await runOnPython(inTime)).toMatchObject({ status: 'SUCCESS' });
  });

  it('with headers, limits and ids where Celery expects them', async () => {
    const rootId = randomUUID();
    const options = { headers: { region: 'eu' }, timeoutMs: 30_000, softTimeoutMs: 2_500, rootId };
    const message = call('interop.headers', { priority: 9, options });
    expect((await runOnPython(message)).result).toEqual({
      region: 'eu',
      origin: expect.stringMatching(/^gen\d+@/) as string,
      root_id: rootId,
      timelimit: [30, 2.5],
      priority: 9,
    });
  });
});

describe('a task sent by a Celery producer is taken', () => {
  const queue = unique('typescript');

  async function takeSent(calls: readonly CeleryCall[] | string, n: number): Promise<Delivery[]> {
    await sendFromPython(target, calls);
    const taken = await until(async () => {
      const deliveries = await broker.take([queue], n);
      return deliveries.length > 0 && deliveries;
    });
    await broker.ack(taken);
    return [...taken];
  }
  const message = ([delivery]: readonly Delivery[]): Envelope => {
    if (delivery === undefined || 'raw' in delivery.message) throw new Error('it was not read');
    return delivery.message;
  };
  const read = ({ body }: Envelope): unknown => JSON.parse(Buffer.from(body).toString());

  it('with its id, name, arguments and keyword arguments', async () => {
    const id = randomUUID();
    const args = ['žluťoučký 🐎 \u0000', null, 1.5];
    const options = { queue, task_id: id, headers: { region: 'eu' } };
    const sent = { name: 'ts.first', args, kwargs: { order: { id: 7 } }, options };
    const taken = message(await takeSent([sent], 5));
    expect(taken).toMatchObject({ id, name: 'ts.first', queue, version: 1, etaMs: null });
    expect(read(taken)).toMatchObject([args, { order: { id: 7 } }, { chain: null }]);
    const { headers } = JSON.parse(Buffer.from(taken.options).toString()) as EnvelopeOptions;
    expect(headers).toEqual({ region: 'eu' });
  });

  it('with integers of any size, as bytes', async () => {
    const sent = `[{"name":"ts.big","args":[9007199254740993],"options":{"queue":"${queue}"}}]`;
    const { body } = message(await takeSent(sent, 5));
    expect(Buffer.from(body).toString()).toContain('[[9007199254740993]');
  });

  it('with eta and expires', async () => {
    const [eta, expires] = ['2099-01-02T03:04:05.678+00:00', '2099-01-03T00:00:00+00:00'];
    const sent = { name: 'ts.later', options: { queue, eta, expires } };
    expect(message(await takeSent([sent], 5))).toMatchObject({
      etaMs: Date.parse(eta),
      expiresMs: Date.parse(expires),
    });
  });

  it('highest priority first, as by a Celery worker', async () => {
    const sent = [9, 4, 0, 7].map(priority => ({
      name: `ts.priority-${priority}`,
      options: { queue, priority },
    }));
    const taken = await takeSent(sent, 5);
    expect(taken.map(delivery => message([delivery]).name)).toEqual([
      'ts.priority-0',
      'ts.priority-4',
      'ts.priority-7',
      'ts.priority-9',
    ]);
    expect(taken.map(delivery => message([delivery]).priority)).toEqual([0, 4, 7, 9]);
  });

  it('or reported with the reason why it cannot be read, and the rest is read', async () => {
    const options = { queue };
    const pickled = { name: 'ts.pickle', options: { ...options, serializer: 'pickle' } };
    const taken = await takeSent([pickled, { name: 'ts.after', options }], 5);
    expect(taken.map(({ message: found }) => ('why' in found ? found.why : found.name))).toEqual([
      expect.stringContaining('content type'),
      'ts.after',
    ]);
  });
});

describe('a queue that both consume', () => {
  it('delivers every task to one of them', async () => {
    const [queue, key] = [unique('both'), unique('record')];
    const args = JSON.stringify([key]);
    const ours = Array.from({ length: 60 }, () => call('interop.record', { queue, args }));
    const theirs = Array.from({ length: 60 }, () => randomUUID());
    const second = await startCeleryWorker(target, [queue]);
    onTestFinished(() => endProcess(second));
    const taken: string[] = [];
    const takeSome = async (): Promise<void> => {
      const deliveries = await broker.take([queue], 3);
      taken.push(...deliveries.map(({ message }) => (message as Envelope).id));
      await broker.ack(deliveries);
    };
    await Promise.all([
      broker.publish(ours),
      sendFromPython(
        target,
        theirs.map(id => ({
          name: 'interop.record',
          args: [key],
          options: { queue, task_id: id },
        })),
      ),
      until(async () => {
        await takeSome();
        return taken.length >= 10;
      }),
    ]);
    const all = await until(async () => {
      await takeSome();
      const run = (await results.command('lrange', key, 0, -1)) as readonly Buffer[];
      return taken.length + run.length >= 120 && [...taken, ...run.map(String)];
    });
    expect(all.sort()).toEqual([...ours.map(({ id }) => id), ...theirs].sort());
  });
});

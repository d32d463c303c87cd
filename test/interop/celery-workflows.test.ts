import type { ChildProcess } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openRedisBroker, type RedisBroker } from '../../src/adapters/redis/redis-broker.ts';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { afterDone } from '../../src/ledger/follow-up.ts';
import { composeCall, type SentCall } from '../../src/outbox/compose-call.ts';
import { envelopeOf } from '../../src/outbox/outbox-writer.ts';
import { uuidv7 } from '../../src/runtime/runtime.ts';
import { task, type Call } from '../../src/task/define-task.ts';
import { derivedId } from '../../src/task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../../src/task/envelope.ts';
import { toText } from '../../src/task/json.ts';
import { NO_KEYS } from '../../src/task/keyring.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { chain, group } from '../../src/task/workflow.ts';
import { celeryMeta } from '../support/celery-meta.ts';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { callFromPython, endProcess, startCeleryWorker, type CeleryTarget } from './celery-kit.ts';
import { handlerOf, startFleetWorker } from './fleet-kit.ts';

const PYTHON = 'python';
const OURS = 'ours';
const add = task('interop.add', {
  queue: PYTHON,
  args: unchecked<[number, number]>(),
  result: unchecked<number>(),
});
const fail = task('interop.fail', { queue: PYTHON, args: unchecked<[string]>() });
const alarm = task('interop.alarm', { queue: PYTHON, input: unchecked<string>() });
const double = task('ts.double', {
  queue: OURS,
  version: 3,
  input: unchecked<number>(),
  result: unchecked<number>(),
});

let server: OwnRedis;
let worker: ChildProcess;
let broker: RedisBroker;
let store: RedisConnection;

beforeAll(async () => {
  server = await startRedis();
  const target: CeleryTarget = { broker: server.url, backend: server.url.replace(/0$/, '1') };
  worker = await startCeleryWorker(target, [PYTHON]);
  broker = await openRedisBroker(target.broker);
  store = await RedisConnection.open({ url: target.backend, role: 'ledger', name: 'results' });
});

afterAll(async () => {
  await broker.close();
  store.close();
  await endProcess(worker);
  await server.dispose();
});

/** As a relay would publish the rows of this call. */
async function publish(call: Call): Promise<SentCall> {
  const newId = (): string => uuidv7(Date.now());
  const deps = {
    nowMs: Date.now(),
    newId,
    maxPayloadBytes: 1_000_000,
    redact: null,
    keyring: NO_KEYS,
    parent: null,
  };
  const composed = await composeCall(call, deps);
  const outcomes = await broker.publish(composed.rows.map(envelopeOf));
  expect(outcomes.every(({ status }) => status === 'confirmed')).toBe(true);
  return composed.sent(composed.rows.map(({ id }) => ({ id, isNew: true })));
}

async function resultOf(id: string): Promise<unknown> {
  const text = await celeryMeta(store, id);
  const { status, result } = JSON.parse(text) as { status: string; result: unknown };
  expect(status).toBe('SUCCESS');
  return result;
}

async function takeOurs(): Promise<Envelope> {
  const [delivery] = await until(async () => {
    const taken = await broker.take([OURS], 1);
    return taken.length > 0 && taken;
  });
  if (delivery === undefined || 'raw' in delivery.message) throw new Error('nobody can read it');
  await broker.ack([delivery]);
  return delivery.message;
}

describe('a workflow sent by us is continued by a Celery worker', () => {
  it('along a chain', async () => {
    const sent = await publish(
      chain(add.with({ args: [2, 2] }), add.after({ args: [4] }), add.after({ args: [8] })),
    );
    expect(await resultOf(sent.id)).toBe(16);
  });

  it('to a link, and to an error link with the id of the failed task', async () => {
    const sent = await publish(add.with({ args: [1, 2] }, { link: add.after({ args: [16] }) }));
    expect(await resultOf(derivedId(sent.id, 'link:0'))).toBe(19);
    const failed = await publish(fail.with({ args: ['on purpose'] }, { linkError: alarm }));
    const alarms = await until(async () => {
      const list = (await store.command('lrange', 'alarms', '0', '-1')) as Buffer[];
      return list.length > 0 && list.map(String);
    });
    expect(alarms).toEqual([failed.id]);
  });

  it('in every member of a group', async () => {
    const sent = await publish(
      group([
        add.with({ args: [1, 1] }),
        chain(add.with({ args: [2, 2] }), add.after({ args: [1] })),
      ]),
    );
    if (!('members' in sent)) throw new Error('not a group');
    const results = sent.members.map(({ id }) => resultOf(id));
    expect(await Promise.all(results)).toEqual([2, 5]);
  });

  it('from Python to us and back', async () => {
    const sent = await publish(
      chain(
        add.with({ args: [2, 2] }),
        double.after(undefined, { headers: { region: 'eu' } }),
        add.after({ args: [1] }),
      ),
    );
    const ours = await takeOurs();
    const options = JSON.parse(toText(ours.options)) as EnvelopeOptions;
    const [first] = 'before' in sent ? sent.before : [];
    expect(ours).toMatchObject({ name: 'ts.double', queue: OURS, version: 3 });
    expect(options).toMatchObject({
      headers: { region: 'eu' },
      rootId: first?.id,
      parentId: first?.id,
    });
    expect((JSON.parse(toText(ours.body)) as unknown[])[0]).toEqual([4]);
    const follow = {
      nowMs: Date.now(),
      queueOf: () => null,
      redact: null,
      keyring: NO_KEYS,
      answers: false,
    };
    const next = afterDone(ours, '8', follow).flatMap(entry =>
      'publish' in entry ? [entry.publish] : [],
    );
    await broker.publish(next);
    expect(await resultOf(sent.id)).toBe(9);
  });
});

describe.each([
  ['RabbitMQ', () => rabbitmqUrl()],
  ['Redis', () => server.url],
] as const)('a step that Python gave no queue, on %s', (_, url) => {
  it('goes where our routes say, and without one to the default queue', async () => {
    const [ours, theirs, routed] = [unique('ours'), unique('theirs'), unique('routed')];
    const target: CeleryTarget = { broker: url(), backend: server.url.replace(/0$/, '2') };
    const python = await startCeleryWorker(target, [theirs, routed]);
    onTestFinished(() => endProcess(python));
    const database = await migratedDatabase('routes');
    onTestFinished(() => database.dispose());
    const sum = handlerOf('ts.sum', ours, args => Number(args[0]) + Number(args[1]));
    const celery = { defaultQueue: theirs, routes: { 'interop.rout*': { queue: routed } } };
    const given = { database: database.url, broker: url(), celery };
    await startFleetWorker({ ...given, handlers: [sum] });
    const first = { name: 'ts.sum', args: [2, 2], options: { queue: ours } };
    const { outcomes } = await callFromPython(target, [
      { chain: [first, { name: 'interop.place' }] },
      { chain: [first, { name: 'interop.routed' }] },
      { chain: [first, { name: 'ts.sum', args: [4] }, { name: 'interop.add', args: [1] }] },
    ]);
    expect((await outcomes).map(({ value }) => value)).toEqual([theirs, routed, 9]);
  });
});

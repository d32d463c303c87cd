import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunRef } from '../../src/ledger/ledger.ts';
import { toText } from '../../src/task/json.ts';
import { HOUR, makeEnvelope, MINUTE } from '../conformance/envelopes.ts';
import { LedgerDriver, sampleError } from '../conformance/ledger-driver.ts';
import { until } from '../support/database.ts';
import { openTestLedger, type TestLedger } from '../support/redis-ledger.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import {
  endProcess,
  readFromPython,
  sendFromPython,
  startCeleryWorker,
  type CeleryTarget,
} from './celery-kit.ts';

let server: OwnRedis;
let target: CeleryTarget;
let fixture: TestLedger;
let driver: LedgerDriver;

beforeAll(async () => {
  server = await startRedis();
  target = { broker: server.url, backend: server.url };
  fixture = await openTestLedger(server.url, { celeryResultMs: 12 * HOUR });
  driver = new LedgerDriver(fixture);
});

afterAll(async () => {
  await fixture.dispose();
  await server.dispose();
});

const json = (text: string) => ({ kind: 'done', result: new TextEncoder().encode(text) }) as const;
const task = (making: Parameters<typeof makeEnvelope>[0] = {}) =>
  makeEnvelope({ id: randomUUID(), ...making });

/** Ended tasks, each with another ending. */
const ENDINGS = {
  value: async () => await driver.done(task(), { outcome: json('{"t":"žlutý 😀","n":[1,null]}') }),
  big: async () => await driver.done(task(), { outcome: json('12345678901234567890') }),
  nothing: async () => await driver.done(task()),
  discarded: async () =>
    await driver.done(task(), { outcome: { kind: 'discarded', why: 'no "need"' } }),
  failed: async () => {
    const { envelope, task: run } = await driver.running(task());
    await driver.fail(run, { error: sampleError('no funds: "0" \u0000'), delayMs: null });
    return envelope;
  },
  named: async () => {
    const { envelope, task: run } = await driver.running(task());
    const error = { type: 'ValueError', message: 'no funds', traceback: '' };
    await driver.fail(run, { error, delayMs: null });
    return envelope;
  },
  unknown: async () => {
    const { envelope, task: run } = await driver.running(task());
    const error = { type: 'ERR_TASK_UNKNOWN', message: 'no handler', traceback: '' };
    await driver.fail(run, { error, delayMs: null });
    return envelope;
  },
  buried: async () => {
    const { envelope, task: run } = await driver.running(task());
    await driver.bury(run);
    return envelope;
  },
  crashed: async () => {
    const { envelope, worker } = await driver.running(task(), { crashBudgets: { '*': 0 } });
    await driver.crash(worker);
    return envelope;
  },
  cancelled: async () => {
    const { envelope } = await driver.running(task());
    await driver.ledger.cancel(envelope.id);
    return envelope;
  },
  expired: async () => {
    const envelope = task({ expiresMs: (await driver.nowMs()) - MINUTE });
    await driver.begin((await driver.open()).worker, { messages: [envelope] });
    return envelope;
  },
} as const;

describe('a result of our workers', () => {
  it('is what Python gets, for every ending', async () => {
    const names = Object.keys(ENDINGS) as (keyof typeof ENDINGS)[];
    const ids: string[] = [];
    for (const name of names) ids.push((await ENDINGS[name]()).id);
    const outcomes = await readFromPython(target, ids);
    const byName = Object.fromEntries(names.map((name, index) => [name, outcomes[index]]));
    const failureOf = (text: string) => {
      const { type, traceback } = sampleError(text);
      return { state: 'FAILURE', type, args: [text], traceback };
    };
    expect(byName).toEqual({
      value: { state: 'SUCCESS', value: { t: 'žlutý 😀', n: [1, null] } },
      big: { state: 'SUCCESS', value: Number('12345678901234567890') },
      nothing: { state: 'SUCCESS', value: null },
      discarded: { state: 'REVOKED', type: 'TaskRevokedError', args: ['discarded: no "need"'] },
      failed: failureOf('no funds: "0" \u0000'),
      named: { state: 'FAILURE', type: 'ValueError', args: ['no funds'] },
      unknown: { state: 'FAILURE', type: 'NotRegistered', args: ['no handler'] },
      buried: failureOf('buried'),
      crashed: {
        state: 'FAILURE',
        type: 'WorkerLostError',
        args: ['its worker died 1 times; the last time: it left before its runs had ended'],
      },
      cancelled: { state: 'REVOKED', type: 'TaskRevokedError', args: ['revoked'] },
      expired: { state: 'REVOKED', type: 'TaskRevokedError', args: ['expired'] },
    });
  });

  it('wakes a waiting Python caller', async () => {
    const { envelope, task: run } = await driver.running(task());
    const reading = readFromPython(target, [envelope.id], {
      onWaiting: () => void commitWhenAwaited(run),
    });
    const commitWhenAwaited = async (ref: RunRef): Promise<void> => {
      const channel = `celery-task-meta-${envelope.id}`;
      await until(async () => {
        const reply = await fixture.connection.command('pubsub', 'numsub', channel);
        return (reply as readonly unknown[])[1] !== 0;
      });
      await driver.commit(ref, { outcome: json('"at last"') });
    };
    expect(await reading).toEqual([{ state: 'SUCCESS', value: 'at last' }]);
  });

  it('is RETRY while a task waits for its next attempt, and unknown again when it is revived', async () => {
    const { envelope, task: run } = await driver.running(task());
    await driver.fail(run, { delayMs: HOUR });
    const dead = await ENDINGS.failed();
    const letter = await fixture.readModel.showDeadLetter(dead.id);
    await driver.ledger.revive(dead.id, letter?.version ?? 0);
    const states = await readFromPython<string>(target, [envelope.id, dead.id], {
      isStateOnly: true,
    });
    expect(states).toEqual(['RETRY', 'PENDING']);
  });

  it('is STARTED while a task runs, where that is configured, and never overwrites an end', async () => {
    const runsAt = { pid: 4711, hostname: 'outlast-4711@host' };
    const begun = await driver.running(task(), { runsAt });
    const [done, silent] = [await ENDINGS.value(), (await driver.running(task())).envelope];
    // Its tombstone is pruned, so a late copy of its message runs once more.
    await fixture.advance(HOUR);
    const { worker } = await driver.open();
    const fresh = task();
    const messages = [
      done,
      fresh,
      task({ options: new TextEncoder().encode('{"keepResult":false}') }),
    ];
    const { begun: again } = await driver.begin(worker, { messages, runsAt });
    const ids = [begun.envelope.id, silent.id, ...messages.map(({ id }) => id)];
    const states = await readFromPython<string>(target, ids, { isStateOnly: true });
    expect(states).toEqual(['STARTED', 'PENDING', 'SUCCESS', 'STARTED', 'PENDING']);
    const raw = await fixture.connection.command('get', `celery-task-meta-${begun.envelope.id}`);
    expect(JSON.parse(String(raw))).toEqual({
      status: 'STARTED',
      result: runsAt,
      traceback: null,
      children: [],
      date_done: null,
      task_id: begun.envelope.id,
    });
    expect((await fixture.results.read(begun.envelope.id)).state).toBe('running');
    await driver.commit(begun.task, { outcome: json('1') });
    const ofDone = again.find(({ id }) => id === done.id) as RunRef;
    await driver.commit(ofDone, { outcome: json('2') });
    expect(await readFromPython(target, [ids[0] ?? '', done.id])).toEqual([
      { state: 'SUCCESS', value: 1 },
      { state: 'SUCCESS', value: 2 },
    ]);
  });

  it('is that of later steps too, unless they were sent after all', async () => {
    const [dead, later, done] = [await ENDINGS.failed(), task(), await ENDINGS.value()];
    const { envelope: begun } = await driver.running(task());
    const error = sampleError('no funds');
    const ids = [later.id, done.id, begun.id];
    await driver.ledger.recordNeverSent?.(ids, { status: 'FAILURE', error }, dead.id);
    const states = await readFromPython<string>(target, ids, { isStateOnly: true });
    expect(states).toEqual(['FAILURE', 'SUCCESS', 'PENDING']);
    const read = async () => await fixture.results.read(later.id);
    expect(await read()).toMatchObject({ state: 'dead', ending: 'dead', error, of: dead.id });
    // The chain goes on: the step is yet to come.
    const letter = await fixture.readModel.showDeadLetter(dead.id);
    await driver.ledger.revive(dead.id, letter?.version ?? 0);
    expect(await read()).toMatchObject({ state: 'unknown', ending: null });
  });

  it('is not written for tasks without keepResult', async () => {
    const options = new TextEncoder().encode('{"keepResult":false}');
    const { id } = await driver.done(task({ options }), { outcome: json('1') });
    const runsAt = { pid: 1, hostname: 'host' };
    const { envelope } = await driver.running(task({ options }), { runsAt });
    for (const unwanted of [id, envelope.id])
      expect(await fixture.connection.command('exists', `celery-task-meta-${unwanted}`)).toBe(0);
  });

  it('is read by us from the same key, also after the tombstone is pruned', async () => {
    const value = await ENDINGS.value();
    const discarded = await ENDINGS.discarded();
    const read = async (id: string) => {
      const record = await fixture.results.read(id);
      return { ...record, result: record.result && toText(record.result) };
    };
    const expected = [await read(value.id), await read(discarded.id)];
    expect(expected[0]).toMatchObject({ ending: 'done', result: '{"t":"žlutý 😀","n":[1,null]}' });
    await fixture.advance(HOUR);
    expect(await driver.state(value.id)).toBeUndefined();
    expect([await read(value.id), await read(discarded.id)]).toEqual(expected);
    const left = Number(await fixture.connection.command('pttl', `celery-task-meta-${value.id}`));
    expect(left).toBeGreaterThan(11 * HOUR);
    expect(left).toBeLessThanOrEqual(12 * HOUR);
  });
});

describe('a state or result written by a Celery worker', () => {
  it('is read by us', async () => {
    const worker = await startCeleryWorker(target, ['results']);
    try {
      const [echo, wrong, held] = [randomUUID(), randomUUID(), randomUUID()];
      const options = { queue: 'results' };
      await sendFromPython(target, [
        { name: 'interop.echo', args: ['ž'], options: { ...options, task_id: echo } },
        { name: 'interop.record', args: [1, 2, 3], options: { ...options, task_id: wrong } },
      ]);
      const ended = (id: string) =>
        until(async () => {
          const record = await fixture.results.read(id);
          return record.ending !== null && record;
        });
      const { result, ending } = await ended(echo);
      expect(ending).toBe('done');
      expect(JSON.parse(toText(result ?? new Uint8Array()))).toMatchObject({ args: ['ž'] });
      expect(await ended(wrong)).toMatchObject({ ending: 'dead', error: { type: 'TypeError' } });
      const key = 'held-until';
      await sendFromPython(target, [
        { name: 'interop.hold', args: [key], options: { ...options, task_id: held } },
      ]);
      const running = { state: 'running', ending: null };
      await until(async () => (await fixture.results.read(held)).state !== 'unknown');
      expect(await fixture.results.read(held)).toMatchObject(running);
      await fixture.connection.command('rpush', key, 'go on');
      expect((await ended(held)).ending).toBe('done');
    } finally {
      await endProcess(worker);
    }
  });
});

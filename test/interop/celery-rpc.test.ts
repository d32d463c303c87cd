import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toBytes } from '../../src/task/json.ts';
import { EMBED } from '../../src/task/signature.ts';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { callFromPython, CeleryControl, type CeleryCall, type CeleryTarget } from './celery-kit.ts';
import { handlerOf, startFleetWorker, startRecovery, type StartOptions } from './fleet-kit.ts';

let database: MigratedDatabase;
let store: OwnRedis;
let target: CeleryTarget;

beforeAll(async () => {
  [database, store] = [await migratedDatabase('rpc'), await startRedis()];
  target = {
    broker: rabbitmqUrl().replace(/\/$/, '//'),
    backend: 'rpc://',
    store: store.url,
  };
});

afterAll(async () => {
  await store.dispose();
  await database.dispose();
});

const servers = () => ({ database: database.url, broker: rabbitmqUrl() });
const start = (handlers: StartOptions['handlers'], more: Partial<StartOptions> = {}) =>
  startFleetWorker({ ...servers(), handlers, ...more });

class NoFunds extends Error {
  override readonly name = 'NoFunds';
}

describe('a Python caller with rpc:// results', () => {
  const call = (name: string, queue: string, more: Partial<CeleryCall> = {}): CeleryCall => ({
    ...more,
    name,
    options: { queue, ...more.options },
  });

  it('gets the results, errors, retries and revocations of our worker', async () => {
    const queue = unique('rpc');
    await start(
      [
        handlerOf('rpc.echo', queue, args => args),
        handlerOf('rpc.double', queue, ([value]) => Number(value) * 2),
        handlerOf('rpc.fail', queue, () => {
          throw new NoFunds('no "funds" 🐎');
        }),
        // Due at once: the notification of the first run must not come after that of the second.
        handlerOf(
          'rpc.second',
          queue,
          (_args, { attempt }) => {
            if (attempt === 1) throw new RangeError('not yet');
            return `attempt ${attempt}`;
          },
          { backoff: '1ms' },
        ),
      ],
      { worker: { trackStarted: 'on' } },
    );
    await startRecovery(servers());
    // The first is awaited first: for the others Celery reports only the end.
    const plain = JSON.stringify([
      call('rpc.second', queue),
      call('rpc.echo', queue, { args: ['žluťoučký 🐎'] }),
      call('rpc.fail', queue),
      { chain: [call('rpc.double', queue, { args: [2] }), call('rpc.double', queue)] },
    ]);
    // Integers beyond a JavaScript number are written as they are.
    const big = `{"name":"rpc.echo","args":[9007199254740993],"options":{"queue":"${queue}"}}`;
    const { outcomes } = await callFromPython(target, plain.replace(/\]$/, `,${big}]`));
    const [second, echo, fail, chained, bigger] = await outcomes;
    expect(echo).toMatchObject({ state: 'SUCCESS', value: ['žluťoučký 🐎'] });
    expect(fail).toMatchObject({ state: 'FAILURE', type: 'NoFunds', args: ['no "funds" 🐎'] });
    expect(second).toMatchObject({
      value: 'attempt 2',
      seen: ['STARTED', 'RETRY', 'STARTED', 'SUCCESS'],
    });
    expect(chained).toMatchObject({ state: 'SUCCESS', value: 8 });
    expect(bigger).toMatchObject({ value: [9007199254740993n] });
  });

  it('is notified of a task that was revoked before it arrived, while it waited, and while it ran', async () => {
    const [queue, later] = [unique('rpc'), unique('rpc.later')];
    const began = gate();
    const { node, stores } = await start(
      [
        handlerOf('rpc.run', queue, async (_args, { signal }) => {
          began.open();
          await new Promise(resolve => signal.addEventListener('abort', resolve));
        }),
      ],
      { worker: { celeryControl: 'full' } },
    );
    await startRecovery(servers());
    const control = new CeleryControl(target);
    const ask = (method: string, given: object) => until(() => control.ask(node, method, given));
    const { ids, outcomes } = await callFromPython(target, [
      call('rpc.run', later),
      call('rpc.run', queue, { options: { countdown: 3_600 } }),
      call('rpc.run', queue),
    ]);
    await began.opened;
    await until(async () => (await stores.results.read(ids[1] ?? '')).state === 'waiting');
    await ask('revoke', { task_id: [ids[0], ids[1]] });
    await ask('revoke', { task_id: ids[2], terminate: true });
    await ask('add_consumer', { queue: later });
    await control.close();
    const revoked = { state: 'REVOKED', type: 'TaskRevokedError', args: ['revoked'] };
    expect(await outcomes).toMatchObject([revoked, revoked, revoked]);
  });

  it('gets its answer from recovery when a worker died before it sent it', async () => {
    const queue = unique('rpc');
    const died = gate();
    await start([handlerOf('rpc.echo', queue, args => args)], {
      faultPoint: name => {
        if (name !== 'worker.committed-not-followed') return Promise.resolve();
        died.open();
        return Promise.reject(new Error('killed here'));
      },
    });
    const { outcomes } = await callFromPython(target, [call('rpc.echo', queue, { args: [1] })]);
    await died.opened;
    await startRecovery(servers());
    expect(await outcomes).toMatchObject([{ state: 'SUCCESS', value: [1] }]);
  });
});

describe('a TypeScript sender with `replyTo`', () => {
  it('is notified of a failure by recovery when a worker died before it sent it', async () => {
    const [queue, replyTo] = [unique('rpc'), randomUUID()];
    const inspector = await RabbitInspector.connect();
    await inspector.with(channel => channel.assertQueue(replyTo));
    const died = gate();
    const fail = handlerOf('rpc.fail', queue, () => {
      throw new NoFunds('none');
    });
    const { stores } = await start([fail], {
      faultPoint: name => {
        if (name !== 'worker.committed-not-followed') return Promise.resolve();
        died.open();
        return Promise.reject(new Error('killed here'));
      },
    });
    const options = toBytes(JSON.stringify({ replyTo, correlationId: 'c-1' }));
    // As `send` writes it: nothing else follows the task.
    const asking = makeEnvelope({ name: 'rpc.fail', queue, embed: EMBED, options });
    await stores.broker.publish([asking]);
    await died.opened;
    const answer = () => inspector.with(channel => channel.get(replyTo, { noAck: true }));
    expect(String((await until(answer)).content)).toContain('"RETRY"');
    expect(await answer()).toBe(false);
    await startRecovery(servers());
    const { content, properties } = await until(answer);
    expect(properties.correlationId).toBe('c-1');
    expect(JSON.parse(content.toString())).toMatchObject({
      task_id: asking.id,
      status: 'FAILURE',
      result: { exc_type: 'NoFunds', exc_message: ['none'] },
    });
    await inspector.delete(replyTo);
    await inspector.close();
  });

  it.each([
    ['that knows it: nothing is sent', 500, []],
    // Its notification comes after the end, so it sends the end once more.
    ['that does not know it: the end is sent last', 60_000, ['STARTED', 'SUCCESS']],
  ] as const)('gets no wrong last state from an overtaken run %s', async (_, beatMs, late) => {
    const [queue, replyTo] = [unique('rpc'), randomUUID()];
    const inspector = await RabbitInspector.connect();
    await inspector.with(channel => channel.assertQueue(replyTo));
    const received: string[] = [];
    const receive = async (count: number): Promise<readonly string[]> =>
      await until(async () => {
        const answer = await inspector.with(channel => channel.get(replyTo, { noAck: true }));
        if (answer)
          received.push((JSON.parse(String(answer.content)) as { status: string }).status);
        return received.length >= count && received;
      });
    const [began, goesOn, closed] = [gate(), gate(), gate()];
    const worker = { trackStarted: 'on' } as const;
    const handlers = [handlerOf('rpc.echo', queue, args => args)];
    // One slot: it must not be the worker that takes the task again.
    const slow = await start(handlers, {
      worker: { ...worker, concurrency: 1 },
      beatMs,
      emit: name => name === 'worker:lease-lost' && closed.open(),
      faultPoint: async name => {
        if (name !== 'worker.begun-not-started') return;
        began.open();
        await goesOn.opened;
      },
    });
    const options = toBytes(JSON.stringify({ replyTo }));
    const asking = makeEnvelope({ name: 'rpc.echo', queue, embed: EMBED, options });
    await slow.stores.broker.publish([asking]);
    await began.opened;
    const { ledger } = slow.stores;
    await ledger.condemn({ kind: 'process', process: slow.process });
    await ledger.reap(10);
    await start(handlers, { worker });
    expect(await receive(2)).toEqual(['STARTED', 'SUCCESS']);
    if (late.length === 0) await closed.opened;
    goesOn.open();
    expect(await receive(2 + late.length)).toEqual(['STARTED', 'SUCCESS', ...late]);
    await slow.service.stop();
    expect(await inspector.delete(replyTo)).toBe(0);
    await inspector.close();
  });
});

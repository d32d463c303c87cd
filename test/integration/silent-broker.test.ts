import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { rabbitBroker } from '../support/rabbit-broker.ts';
import type { Broker } from '../../src/broker/broker.ts';
import { DestinationGuard } from '../../src/broker/destination-guard.ts';
import { resolveConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/runtime/runtime.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import { openBroker } from '../../src/context/open-broker.ts';
import type { Stores } from '../../src/context/stores.ts';
import { makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { handlerOf, startFleetWorker, startRecovery } from '../interop/fleet-kit.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRabbit, type OwnRabbit } from '../support/rabbit-server.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { redisUrl } from '../support/servers.ts';
import { isLong } from '../support/selection.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let database: MigratedDatabase;
let rabbit: OwnRabbit;
let redis: OwnRedis;

beforeAll(async () => {
  [database, rabbit, redis] = await Promise.all([
    migratedDatabase('silent'),
    startRabbit(),
    startRedis(),
  ]);
});

afterAll(async () => {
  await Promise.all([database.dispose(), rabbit.dispose(), redis.dispose()]);
});

const [PLAIN, NEXT] = ['silent.plain', 'silent.next'];

/** A follow-up as Celery writes it. */
const linkTo = (queue: string): string =>
  JSON.stringify({
    callbacks: [{ task: NEXT, args: [], kwargs: {}, options: { queue }, subtask_type: null }],
    errbacks: null,
    chain: null,
    chord: null,
  });

async function publisherOn(url: string): Promise<Broker> {
  const { broker: target, maxMessageBytes } = resolveConfig(
    { database: database.url, broker: url },
    {},
  );
  if (target === null) throw new Error('there is no broker');
  const broker = await openBroker({ target, maxMessageBytes, log: silentLogger });
  onTestFinished(() => broker.close());
  return broker;
}

/** Handlers that count the runs of each task. */
function counting() {
  const runs = new Map<string, number>();
  const names = new Map<string, string>();
  const handler = (name: string, queue: string) =>
    handlerOf(name, queue, (_args, { id }) => {
      runs.set(id, (runs.get(id) ?? 0) + 1);
      names.set(id, name);
      return null;
    });
  const ran = (name: string): number => [...names.values()].filter(other => other === name).length;
  const isOnceEach = (): boolean => [...runs.values()].every(times => times === 1);
  return { handler, ran, isOnceEach };
}

/** Tasks that a host had begun when it was lost. */
async function loseHost({ ledger }: Stores, messages: readonly Envelope[]): Promise<void> {
  const worker = unique('lost');
  await ledger.open({ worker, process: worker, host: 'lost', pid: 1, leaseMs: 1_000 });
  const asked = { queues: [], limit: 0, suspects: 1, crashBudgets: { '*': 5 } };
  const reply = await ledger.begin({ worker, run: unique('run'), messages, ...asked });
  expect(reply).toMatchObject({ begun: messages.map(({ id }) => ({ id })) });
}

interface Fault {
  /** The URL by which worker and resurrector reach the broker. */
  readonly url: string;
  /** A URL that the fault does not affect. */
  readonly direct: string;
  /** Not on the broker: tasks in it continue. */
  readonly ledger?: string;
  begin(): Promise<void>;
  end(): Promise<void>;
}

const FAULTS: Readonly<Record<string, () => Promise<Fault>>> = {
  'a RabbitMQ that is out of memory': () =>
    Promise.resolve({
      url: rabbit.url,
      direct: rabbit.url,
      begin: () => rabbit.control('set_vm_memory_high_watermark', 'absolute', '1'),
      end: () => rabbit.control('set_vm_memory_high_watermark', '0.4'),
    }),
  'a Redis that is paused': () => {
    const client = new Redis(redis.url);
    onTestFinished(() => client.disconnect());
    return Promise.resolve({
      url: redis.url,
      direct: redis.url,
      ledger: redisUrl(),
      begin: async () => void (await client.call('client', 'pause', '600000', 'write')),
      end: async () => void (await client.call('client', 'unpause')),
    });
  },
  ...(isLong ? { 'a Redis behind connections that are half open': halfOpen } : {}),
};

async function halfOpen(): Promise<Fault> {
  const proxy = await TcpProxy.to(redis.url);
  onTestFinished(() => proxy.close());
  return {
    url: proxy.url(redis.url),
    direct: redis.url,
    ledger: redisUrl(),
    begin: async () => proxy.silence(),
    end: async () => proxy.speak(),
  };
}

describe.each(Object.entries(FAULTS))('%s', (_, makeFault) => {
  it('does not stop tasks in the ledger from being brought back and run, and their follow-ups are sent afterwards', async () => {
    const fault = await makeFault();
    const { handler, ran, isOnceEach } = counting();
    const queue = unique('silent');
    const handlers = [handler(PLAIN, queue), handler(NEXT, queue)];
    const { stores } = await startFleetWorker({
      database: database.url,
      broker: fault.url,
      ledger: fault.ledger,
      handlers,
      worker: { celeryControl: 'off' },
    });
    await startRecovery({ database: database.url, broker: fault.url, ledger: fault.ledger });
    const direct = await publisherOn(fault.direct);
    await direct.publish(makeEnvelopes(5, { name: PLAIN, queue }));
    await until(async () => ran(PLAIN) === 5);
    await fault.begin();
    onTestFinished(() => fault.end().catch(() => undefined));
    await loseHost(stores, makeEnvelopes(6, { name: PLAIN, queue, embed: linkTo(queue) }));
    await until(async () => ran(PLAIN) === 11);
    expect(ran(NEXT)).toBe(0);
    await fault.end();
    await direct.publish(makeEnvelopes(5, { name: PLAIN, queue }));
    await until(async () => ran(NEXT) === 6 && ran(PLAIN) === 16);
    expect(isOnceEach()).toBe(true);
  });
});

/** Suspends the process of a queue, as a quorum queue without its majority; or resumes it. */
async function hang(queue: string, how: 'suspend' | 'resume'): Promise<void> {
  const name = `rabbit_misc:r(<<"/">>, queue, <<"${queue}">>)`;
  await rabbit.control(
    'eval',
    `{ok, Q} = rabbit_amqqueue:lookup(${name}), sys:${how}(amqqueue:get_pid(Q)).`,
  );
}

/** As Celery declares it, and hanging. */
async function hangingQueue(): Promise<string> {
  const queue = unique('hangs');
  const inspector = await RabbitInspector.connect(rabbit.url);
  await inspector.with(async channel => {
    await channel.assertQueue(queue, { durable: true });
    await channel.assertExchange(queue, 'direct', { durable: true });
    await channel.bindQueue(queue, queue, queue);
  });
  await inspector.close();
  return queue;
}

describe('a RabbitMQ queue that confirms nothing', () => {
  it('does not stop other publishes on the connection, however many messages it was sent', async () => {
    const broker = await publisherOn(rabbit.url);
    const guard = new DestinationGuard(broker, systemClock);
    const [dead, well] = [await hangingQueue(), unique('well')];
    await broker.publish([makeEnvelope({ queue: dead }), makeEnvelope({ queue: well })]);
    await hang(dead, 'suspend');
    const waiting = Promise.all(
      Array.from({ length: 10 }, () => guard.publish(makeEnvelopes(100, { queue: dead }), 5_000)),
    );
    for (let round = 0; round < 3; round++)
      await until(async () => {
        const outcomes = await guard.publish(makeEnvelopes(300, { queue: well }), 5_000);
        return outcomes.every(({ status }) => status === 'confirmed');
      });
    const statuses = (await waiting).flat().map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set(['unavailable']));
    // A publisher without a guard does not run into it again either: little is written to a queue that does not answer.
    const outcomes = await Promise.all(
      Array.from({ length: 500 }, () => broker.publish([makeEnvelope({ queue: dead })])),
    );
    expect(outcomes.flat().some(({ status }) => status === 'confirmed')).toBe(false);
    expect(await broker.publish([makeEnvelope({ queue: well })])).toEqual([
      { status: 'confirmed' },
    ]);
    await hang(dead, 'resume');
    await until(async () => {
      const [outcome] = await guard.publish([makeEnvelope({ queue: dead })], 5_000);
      return outcome?.status === 'confirmed';
    });
  });

  it('is reported by a worker that can neither look at it nor consume it, and consumed when it answers', async () => {
    const queue = await hangingQueue();
    const troubles: unknown[] = [];
    const onTrouble = (error: unknown): void => void troubles.push(error);
    const broker = rabbitBroker(rabbit.url, { onTrouble });
    onTestFinished(() => broker.close());
    await hang(queue, 'suspend');
    expect(await broker.take([queue], 1)).toEqual([]);
    // It is asked on a few more channels, and no more than that.
    const isGivenUp = (error: unknown): boolean => String(error).includes('unanswered');
    await until(async () => troubles.some(isGivenUp));
    for (const error of troubles) expect(error).toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
    await hang(queue, 'resume');
    const sent = makeEnvelope({ queue });
    await (await publisherOn(rabbit.url)).publish([sent]);
    const [taken] = await until(async () => {
      const deliveries = await broker.take([queue], 1);
      return deliveries.length > 0 && deliveries;
    });
    expect(taken?.message).toMatchObject({ id: sent.id });
  });

  it.runIf(isLong)(
    'stops neither tasks nor follow-ups to other queues; its own follow-ups arrive when it answers',
    async () => {
      const { handler, ran, isOnceEach } = counting();
      const [queue, well, dead] = [unique('silent'), unique('well'), await hangingQueue()];
      const direct = await publisherOn(rabbit.url);
      await direct.publish(makeEnvelopes(500, { name: PLAIN, queue, embed: linkTo(dead) }));
      await direct.publish(makeEnvelopes(20, { name: PLAIN, queue, embed: linkTo(well) }));
      await hang(dead, 'suspend');
      const worker = { celeryControl: 'off', concurrency: 50 } as const;
      const options = { database: database.url, broker: rabbit.url, worker };
      await startFleetWorker({
        ...options,
        handlers: [handler(PLAIN, queue), handler(NEXT, well)],
      });
      await startRecovery(options);
      await until(async () => ran(PLAIN) === 520 && ran(NEXT) === 20);
      await hang(dead, 'resume');
      await startFleetWorker({ ...options, handlers: [handler(NEXT, dead)] });
      await until(async () => ran(NEXT) === 520);
      expect(isOnceEach()).toBe(true);
    },
  );
});

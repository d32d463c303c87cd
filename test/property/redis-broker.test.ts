import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisBroker } from '../../src/adapters/redis/redis-broker.ts';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { RedisHold } from '../../src/adapters/redis/redis-hold.ts';
import { queueKeys } from '../../src/adapters/redis/redis-keys.ts';
import type { Delivery } from '../../src/broker/broker.ts';
import { outlastError } from '../../src/errors/error.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { redisUrl } from '../support/servers.ts';
import { RedisBrokerModel } from './redis-broker-model.ts';

const QUEUES = 2;
const CONSUMERS = 3;
const LONG_LEASE_MS = 600_000;

type Command =
  | { readonly kind: 'publish'; readonly queue: number; readonly priority: number }
  | {
      readonly kind: 'take' | 'take-unheard';
      readonly consumer: number;
      readonly queues: readonly number[];
      readonly limit: number;
    }
  | {
      readonly kind: 'ack' | 'give-back' | 'ack-unheard' | 'give-back-unheard';
      readonly consumer: number;
      readonly picks: readonly number[];
    }
  | { readonly kind: 'lapse' | 'beat'; readonly consumer: number };

const queue = fc.nat({ max: QUEUES - 1 });
const consumer = fc.nat({ max: CONSUMERS - 1 });
const queues = fc.shuffledSubarray([...Array(QUEUES).keys()], { minLength: 1 });
const limit = fc.integer({ min: 1, max: 4 });
const picks = fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 4 });
const priority = fc.nat({ max: 9 });
const commandArbitrary: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('publish'), queue, priority }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('take'), consumer, queues, limit }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('take-unheard'), consumer, queues, limit }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom('ack', 'give-back'), consumer, picks }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom('ack-unheard', 'give-back-unheard'),
      consumer,
      picks,
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('lapse', 'beat'), consumer }) },
);

let redis: RedisConnection;
beforeAll(async () => {
  redis = await RedisConnection.open({ url: redisUrl(), role: 'broker', name: 'property' });
});
afterAll(() => redis.close());

/** A consumer whose replies can be lost: the script has run, and the consumer does not know. */
class Consumer {
  readonly name = unique('consumer');
  readonly hold: RedisHold;
  readonly broker: RedisBroker;
  /** What it took and has not acknowledged, as far as it knows. */
  readonly has = new Map<string, Delivery>();
  /** The model's name for each of these. */
  readonly grips = new Map<Delivery, number>();
  isDeaf = false;

  constructor() {
    const deaf = async <T>(asking: Promise<T>): Promise<T> => {
      const reply = await asking;
      if (!this.isDeaf) return reply;
      throw outlastError('ERR_BROKER_UNAVAILABLE', {
        message: 'the reply was lost',
        hint: '',
        fields: { scope: 'connection' },
      });
    };
    const connection = {
      isCluster: false,
      onConnected: () => undefined,
      script: (...args: Parameters<RedisConnection['script']>) => deaf(redis.script(...args)),
      command: (...args: Parameters<RedisConnection['command']>) => deaf(redis.command(...args)),
      close: () => undefined,
    } as unknown as RedisConnection;
    this.hold = new RedisHold(connection, { consumer: this.name, leaseMs: LONG_LEASE_MS });
    this.broker = new RedisBroker(connection, this.hold, { consumer: this.name });
  }

  /** One call whose reply is lost. */
  async unheard(call: () => Promise<unknown>): Promise<void> {
    this.isDeaf = true;
    await call().catch(() => undefined);
    this.isDeaf = false;
  }
}

/** Names that sort like their numbers, because leases that ended together are handled in the order of names. */
class World {
  readonly names = Array.from({ length: QUEUES }, () => unique('queue'));
  readonly consumers = Array.from({ length: CONSUMERS }, () => new Consumer()).sort((a, b) =>
    a.name < b.name ? -1 : 1,
  );
  readonly model = new RedisBrokerModel(QUEUES, CONSUMERS);

  async run(command: Command): Promise<void> {
    switch (command.kind) {
      case 'publish': {
        const name = this.names[command.queue] ?? '';
        const message = makeEnvelope({ queue: name, priority: command.priority });
        await this.#consumer(0).broker.publish([message]);
        this.model.publish(command.queue, Math.floor(command.priority / 3), message.id);
        return;
      }
      case 'take':
      case 'take-unheard':
        return await this.#take(command);
      case 'ack':
      case 'give-back':
      case 'ack-unheard':
      case 'give-back-unheard':
        return await this.#letGo(command);
      case 'lapse':
        for (const name of this.names) {
          const { leases } = queueKeys(name, false);
          await redis.command('zadd', leases, 'xx', '0', this.#consumer(command.consumer).name);
        }
        this.model.lapse(command.consumer);
        return;
      case 'beat': {
        const { hold, grips } = this.#consumer(command.consumer);
        await hold.beat();
        await hold.beat();
        this.model.beat(command.consumer, new Set(grips.values()));
      }
    }
  }

  async #take(command: Extract<Command, { kind: 'take' | 'take-unheard' }>): Promise<void> {
    const { broker, has, grips } = this.#consumer(command.consumer);
    const names = command.queues.map(index => this.names[index] ?? '');
    const expected = this.model.take(command.consumer, command.queues, command.limit);
    if (command.kind === 'take-unheard') {
      await this.#consumer(command.consumer).unheard(() => broker.take(names, command.limit));
      return;
    }
    const taken = await broker.take(names, command.limit);
    expect(taken.map(idOf)).toEqual(expected.map(({ id }) => id));
    for (const [index, delivery] of taken.entries()) {
      has.set(idOf(delivery), delivery);
      grips.set(delivery, expected[index]?.grip ?? Number.NaN);
    }
  }

  /** Also messages that it took long ago and that other consumers have by now: its acknowledgements must do nothing. */
  async #letGo(command: Extract<Command, { readonly picks: readonly number[] }>): Promise<void> {
    const { broker, has, grips } = this.#consumer(command.consumer);
    const all = [...has.values()];
    const chosen = new Set(command.picks.map(pick => all[pick % Math.max(all.length, 1)]));
    const deliveries = [...chosen].filter(delivery => delivery !== undefined);
    const isAck = command.kind.startsWith('ack');
    const call = (): Promise<void> => broker[isAck ? 'ack' : 'giveBack'](deliveries);
    if (command.kind.endsWith('unheard')) await this.#consumer(command.consumer).unheard(call);
    else await call();
    const gone = deliveries.map(delivery => grips.get(delivery) ?? Number.NaN);
    this.model[isAck ? 'ack' : 'giveBack'](command.consumer, gone);
    for (const delivery of deliveries) {
      has.delete(idOf(delivery));
      grips.delete(delivery);
    }
  }

  /** Every message is where the model has it, and nowhere else. */
  async check(): Promise<void> {
    for (const [index, name] of this.names.entries()) {
      const { lists, heldPrefix } = queueKeys(name, false);
      for (const [place, key] of lists.entries()) {
        const found = (await redis.command('lrange', key, 0, -1)) as readonly Buffer[];
        expect(found.map(elementId).toReversed()).toEqual(this.model.lists[index]?.[place]);
      }
      for (const [at, { name: who }] of this.consumers.entries()) {
        const values = (await redis.command('hvals', heldPrefix + who)) as readonly Buffer[];
        const ids = this.model.held[index]?.[at]?.map(({ id }) => id) ?? [];
        expect(values.map(elementId).sort()).toEqual([...ids].sort());
      }
    }
  }

  /** Without the model: every unacknowledged id exists exactly once. */
  async count(): Promise<ReadonlyMap<string, number>> {
    const counts = new Map<string, number>();
    const add = (element: Buffer): void => {
      const id = elementId(element);
      counts.set(id, (counts.get(id) ?? 0) + 1);
    };
    for (const name of this.names) {
      const { lists, heldPrefix } = queueKeys(name, false);
      for (const key of lists) {
        for (const element of (await redis.command('lrange', key, 0, -1)) as Buffer[]) add(element);
      }
      for (const { name: who } of this.consumers) {
        const values = (await redis.command('hvals', heldPrefix + who)) as Buffer[];
        for (const value of values) add(value);
      }
    }
    return counts;
  }

  /** What one consumer does by itself, while others do the same without waiting for each other. */
  async act(command: Command, published: string[], acked: Set<string>): Promise<void> {
    const at = 'consumer' in command ? command.consumer : 0;
    const { broker, hold, has, name } = this.#consumer(at);
    switch (command.kind) {
      case 'publish': {
        const to = this.names[command.queue] ?? '';
        const message = makeEnvelope({ queue: to, priority: command.priority });
        published.push(message.id);
        await broker.publish([message]);
        return;
      }
      case 'take':
      case 'take-unheard': {
        const names = command.queues.map(index => this.names[index] ?? '');
        for (const delivery of await broker.take(names, command.limit)) {
          has.set(idOf(delivery), delivery);
        }
        return;
      }
      case 'ack':
      case 'give-back':
      case 'ack-unheard':
      case 'give-back-unheard': {
        const deliveries = [...has.values()].slice(0, command.picks.length);
        for (const delivery of deliveries) has.delete(idOf(delivery));
        if (!command.kind.startsWith('ack')) return await broker.giveBack(deliveries);
        for (const delivery of deliveries) acked.add(idOf(delivery));
        return await broker.ack(deliveries);
      }
      case 'lapse':
        for (const from of this.names) {
          await redis.command('zadd', queueKeys(from, false).leases, 'xx', '0', name);
        }
        return;
      case 'beat':
        await hold.beat();
    }
  }

  async clear(): Promise<void> {
    for (const { broker } of this.consumers) await broker.close();
    for (const name of this.names) {
      const { lists, leases } = queueKeys(name, false);
      await redis.command('del', ...lists, leases);
    }
  }

  #consumer(index: number): Consumer {
    return this.consumers[index] as Consumer;
  }
}

const idOf = ({ message }: Delivery): string => (message as Envelope).id;
const elementId = (element: Buffer): string =>
  (JSON.parse(element.toString()) as { headers: { id: string } }).headers.id;

describe('a Redis broker, against a model', () => {
  it('has every message in a list or at one consumer, even with dead consumers and lost replies', async () => {
    const commands = fc.array(commandArbitrary, { maxLength: 40, size: 'max' });
    await fc.assert(
      fc.asyncProperty(commands, async steps => {
        const world = new World();
        for (const step of steps) {
          await world.run(step);
          await world.check();
        }
        await world.clear();
      }),
      { numRuns: 60 },
    );
  });

  it('loses and duplicates nothing when all consumers act at once', async () => {
    const round = fc.array(commandArbitrary, { minLength: 2, maxLength: 12, size: 'max' });
    const rounds = fc.array(round, { minLength: 1, maxLength: 8, size: 'max' });
    await fc.assert(
      fc.asyncProperty(rounds, async steps => {
        const world = new World();
        const [published, acked] = [[] as string[], new Set<string>()];
        for (const commands of steps) {
          await Promise.all(commands.map(command => world.act(command, published, acked)));
          const counts = await world.count();
          expect([...counts.values()].filter(count => count !== 1)).toEqual([]);
          expect(published.filter(id => !acked.has(id) && !counts.has(id))).toEqual([]);
        }
        await world.clear();
      }),
      { numRuns: 60 },
    );
  });
});

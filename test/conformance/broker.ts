import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Broker, Delivery } from '../../src/broker/broker.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import {
  AWKWARD_BYTES,
  ids,
  makeEnvelope,
  makeEnvelopes,
  plainEnvelope,
  unique,
} from './envelopes.ts';

export interface BrokerFixture {
  /** A separate connection, as every process has. */
  connect(): Promise<Broker>;
  /** Cuts a connection without closing it, as a killed process does. */
  disconnect(broker: Broker): Promise<void>;
  dispose(): Promise<void>;
}

/** The envelopes of deliveries; all messages of these suites can be read. */
const envelopes = (deliveries: readonly Delivery[]): Envelope[] =>
  deliveries.map(({ message }) => message as Envelope);

/** Waits for messages that are pushed: a broker may take a moment after the confirmation. */
async function takeAll(broker: Broker, queues: readonly string[], n: number): Promise<Delivery[]> {
  const taken: Delivery[] = [];
  for (let look = 0; look < 200 && taken.length < n; look++) {
    taken.push(...(await broker.take(queues, n - taken.length)));
    if (taken.length < n) await new Promise(resolve => setTimeout(resolve, 10));
  }
  return taken;
}

export interface BrokerTraits {
  /** The priority that is taken first: 9, or 0 as with kombu on Redis; null where a queue knows none. */
  readonly urgent?: 9 | 0 | null;
}

const ORDERS = { 9: [2, 1, 3, 0], 0: [0, 1, 3, 2], none: [0, 1, 2, 3] };

/** Everything the adapter of a separate broker must do. */
export function describeBroker(
  name: string,
  makeFixture: () => Promise<BrokerFixture>,
  { urgent = 9 }: BrokerTraits = {},
): void {
  describe(`broker: ${name}`, () => {
    let fixture: BrokerFixture | undefined;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(async () => {
      await fixture?.dispose();
    });
    const current = (): BrokerFixture => {
      if (fixture === undefined) throw new Error('the fixture has not been made');
      return fixture;
    };
    describe('publish and take', () => delivering(current, urgent));
    describe('custody', () => custody(current));
  });
}

function delivering(current: () => BrokerFixture, urgent: 9 | 0 | null): void {
  it('also declares the queues of follow-ups when it is asked to', async () => {
    const broker = await current().connect();
    const [first, later] = [makeEnvelope(), makeEnvelope({ queue: unique('later') })];
    const manner = { alsoDeclare: [later.queue, later.queue] };
    expect(await broker.publish([first], manner)).toEqual([{ status: 'confirmed' }]);
    const other = await current().connect();
    expect(await other.publish([later], { toExisting: true })).toEqual([{ status: 'confirmed' }]);
    const taken = await takeAll(broker, [first.queue, later.queue], 2);
    expect(ids(envelopes(taken)).toSorted()).toEqual([first.id, later.id].toSorted());
    await broker.ack(taken);
  });

  it('confirms each message and delivers its bytes unchanged', async () => {
    const broker = await current().connect();
    const messages = [
      makeEnvelope({ args: AWKWARD_BYTES, priority: 3, version: 2 }),
      makeEnvelope(),
    ];
    expect(await broker.publish(messages)).toEqual([
      { status: 'confirmed' },
      { status: 'confirmed' },
    ]);
    const taken = await takeAll(
      broker,
      messages.map(({ queue }) => queue),
      2,
    );
    expect(envelopes(taken).map(plainEnvelope)).toEqual(
      expect.arrayContaining(messages.map(plainEnvelope)),
    );
    await broker.ack(taken);
  });

  it('accepts an empty batch, and returns nothing from an empty queue', async () => {
    const broker = await current().connect();
    expect(await broker.publish([])).toEqual([]);
    expect(await broker.take([unique('queue')], 5)).toEqual([]);
    await broker.ack([]);
    await broker.giveBack([]);
  });

  it(`delivers in order of arrival${urgent === null ? '' : `, priority ${urgent} first`}`, async () => {
    const broker = await current().connect();
    const queue = unique('queue');
    const messages = [0, 5, 9, 5].map(priority => makeEnvelope({ queue, priority }));
    for (const message of messages) await broker.publish([message]);
    const taken = await takeAll(broker, [queue], 4);
    const order = ORDERS[urgent ?? 'none'];
    expect(ids(envelopes(taken))).toEqual(order.map(place => messages[place]?.id));
    await broker.ack(taken);
  });

  it('returns at most the limit, and only from the given queues', async () => {
    const broker = await current().connect();
    const [queue, other] = [unique('queue'), unique('queue')];
    await broker.publish([...makeEnvelopes(3, { queue }), makeEnvelope({ queue: other })]);
    const taken = await takeAll(broker, [queue], 2);
    expect(taken).toHaveLength(2);
    expect(envelopes(taken).every(message => message.queue === queue)).toBe(true);
    await broker.giveBack(taken);
  });
}

function custody(current: () => BrokerFixture): void {
  it('hides the messages that one consumer has taken from the others', async () => {
    const [first, second] = [await current().connect(), await current().connect()];
    const message = makeEnvelope();
    await first.publish([message]);
    const taken = await takeAll(first, [message.queue], 1);
    expect(await second.take([message.queue], 5)).toEqual([]);
    await first.ack(taken);
  });

  it('does not deliver acknowledged messages again, even when their consumer dies afterwards', async () => {
    const [first, second] = [await current().connect(), await current().connect()];
    const message = makeEnvelope();
    await first.publish([message]);
    await first.ack(await takeAll(first, [message.queue], 1));
    await current().disconnect(first);
    expect(await second.take([message.queue], 5)).toEqual([]);
  });

  it('redelivers messages that were given back, bytes unchanged', async () => {
    const [first, second] = [await current().connect(), await current().connect()];
    const message = makeEnvelope({ args: AWKWARD_BYTES });
    await first.publish([message]);
    await first.giveBack(await takeAll(first, [message.queue], 1));
    const taken = await takeAll(second, [message.queue], 1);
    expect(envelopes(taken).map(plainEnvelope)).toEqual([plainEnvelope(message)]);
    await second.ack(taken);
  });

  it('redelivers the messages of a dead consumer before later ones', async () => {
    const [first, second] = [await current().connect(), await current().connect()];
    const queue = unique('queue');
    const held = makeEnvelopes(3, { queue });
    for (const message of held) await second.publish([message]);
    const taken = await takeAll(first, [queue], 3);
    await first.ack(taken.slice(0, 1));
    const later = makeEnvelope({ queue });
    await second.publish([later]);
    await current().disconnect(first);
    const back = await takeAll(second, [queue], 3);
    const acked = envelopes(taken.slice(0, 1)).map(({ id }) => id);
    expect(ids(envelopes(back))).toEqual([
      ...ids(held).filter(id => !acked.includes(id)),
      later.id,
    ]);
    await second.ack(back);
  });

  it('ignores acknowledgements from a closed connection', async () => {
    const [first, second] = [await current().connect(), await current().connect()];
    const message = makeEnvelope();
    await first.publish([message]);
    const stale = await takeAll(first, [message.queue], 1);
    await current().disconnect(first);
    await first.ack(stale).catch(() => undefined);
    await first.giveBack(stale).catch(() => undefined);
    const taken = await takeAll(second, [message.queue], 1);
    expect(ids(envelopes(taken))).toEqual([message.id]);
    await second.ack(taken);
    expect(await second.take([message.queue], 5)).toEqual([]);
  });
}

export interface LedgerBrokerFixture {
  readonly broker: Broker;
  readonly ledger: Ledger;
  dispose(): Promise<void>;
}

/** The same port where broker and ledger are one database: nothing to take, nothing to acknowledge. */
export function describeLedgerBroker(
  name: string,
  makeFixture: () => Promise<LedgerBrokerFixture>,
): void {
  describe(`broker in the ledger's database: ${name}`, () => {
    let fixture: LedgerBrokerFixture | undefined;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(async () => {
      await fixture?.dispose();
    });

    it('stores a message that is published twice as one waiting record', async () => {
      if (fixture === undefined) throw new Error('the fixture has not been made');
      const { broker, ledger } = fixture;
      const message = makeEnvelope({ args: AWKWARD_BYTES });
      expect(await broker.publish([message])).toEqual([{ status: 'confirmed' }]);
      expect(await broker.publish([message])).toEqual([{ status: 'confirmed' }]);
      const worker = unique('worker');
      await ledger.open({
        worker,
        process: unique('process'),
        host: 'host-1',
        pid: 1,
        leaseMs: 60_000,
      });
      const crashBudgets = { '*': 5 };
      const request = {
        worker,
        run: unique('run'),
        queues: [message.queue],
        limit: 5,
        suspects: 1,
        messages: [],
        crashBudgets,
      };
      const reply = await ledger.begin(request);
      if (reply.status !== 'open') throw new Error('closed');
      expect(reply.begun.map(({ envelope }) => plainEnvelope(envelope))).toEqual([
        plainEnvelope(message),
      ]);
    });

    it('delivers nothing and ignores acknowledgements', async () => {
      if (fixture === undefined) throw new Error('the fixture has not been made');
      const message = makeEnvelope();
      await fixture.broker.publish([message]);
      expect(await fixture.broker.take([message.queue], 5)).toEqual([]);
      await fixture.broker.ack([]);
      await fixture.broker.giveBack([]);
    });
  });
}

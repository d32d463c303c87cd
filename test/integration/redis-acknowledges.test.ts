import { describe, expect, it, onTestFinished } from 'vitest';
import type { Delivery } from '../../src/broker/broker.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { ids, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { LedgerDriver, runRef } from '../conformance/ledger-driver.ts';
import { openTestBroker } from '../support/redis-broker.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';

/** A broker and a ledger on one server, with messages that were taken. */
async function setup(messages: readonly Envelope[]) {
  const { broker, connection } = await openTestBroker(redisUrl());
  const fixture = await openTestLedger(redisUrl(), { consumer: broker.consumer });
  onTestFinished(async () => {
    await broker.close();
    await fixture.dispose();
  });
  await broker.publish(messages);
  const queues = [...new Set(messages.map(({ queue }) => queue))];
  const taken = await broker.take(queues, messages.length);
  const given = {
    messages: taken.map(({ message }) => message as Envelope),
    tags: taken.map(({ tag }) => tag),
  };
  const held = async (): Promise<number> => {
    const counts = queues.map(queue =>
      connection.command('hlen', `outlast:{${queue}}:held:${broker.consumer}`),
    );
    return ((await Promise.all(counts)) as number[]).reduce((sum, count) => sum + count, 0);
  };
  return { broker, driver: new LedgerDriver(fixture), queues, taken, given, held };
}

describe('a ledger on the server of the broker', () => {
  it('acknowledges messages of every queue in the step that begins them, also when it is repeated', async () => {
    const [one, other] = [unique('queue'), unique('queue')];
    const { broker, driver, queues, taken, given, held } = await setup([
      ...makeEnvelopes(3, { queue: one }),
      ...makeEnvelopes(2, { queue: other }),
    ]);
    expect(await held()).toBe(5);
    const { worker } = await driver.open();
    const request = driver.request(worker, given);
    const reply = await driver.begin(worker, request);
    expect(reply).toMatchObject({ answers: given.messages.map(() => 'begun') });
    expect(await held()).toBe(0);
    const again = await driver.begin(worker, request);
    expect(again.answers).toEqual(reply.answers);
    expect(again.begun.map(runRef)).toEqual(reply.begun.map(runRef));
    expect(again.begun.map(({ envelope }) => envelope)).toEqual(
      reply.begun.map(({ envelope }) => envelope),
    );
    // A doubtful give-back changes nothing: the ledger has them.
    await broker.giveBack(taken);
    expect(await broker.take(queues, 5)).toEqual([]);
  });

  it('acknowledges copies of tasks that it has', async () => {
    const queue = unique('queue');
    const [envelope] = makeEnvelopes(1, { queue }) as [Envelope];
    const { driver, given, held } = await setup([envelope, envelope]);
    await driver.running(envelope);
    const { worker } = await driver.open();
    expect((await driver.begin(worker, given)).answers).toEqual(['held', 'held']);
    expect(await held()).toBe(0);
  });

  it('keeps a message with a conflicting digest until it is buried', async () => {
    const queue = unique('queue');
    const envelope = makeEnvelope({ queue });
    const conflicting = makeEnvelope({
      queue,
      id: envelope.id,
      args: new TextEncoder().encode('[2]'),
    });
    const { broker, driver, queues, taken, given, held } = await setup([conflicting]);
    await driver.running(envelope);
    const { worker } = await driver.open();
    expect((await driver.begin(worker, given)).answers).toEqual(['conflict']);
    expect(await held()).toBe(1);
    await broker.giveBack(taken);
    expect(messagesOf(await broker.take(queues, 5))).toEqual([conflicting.id]);
  });

  it('acknowledges nothing for a closed incarnation', async () => {
    const { driver, given, held } = await setup(makeEnvelopes(2, { queue: unique('queue') }));
    const { worker } = await driver.open();
    await driver.ledger.condemn({ kind: 'worker', worker });
    expect(await driver.ledger.begin(driver.request(worker, given))).toEqual({ status: 'closed' });
    expect(await held()).toBe(2);
  });
});

const messagesOf = (deliveries: readonly Delivery[]): string[] =>
  ids(deliveries.map(({ message }) => message as Envelope));

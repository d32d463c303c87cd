import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createOutlast, startRelay, startWorker, task, unchecked } from '../../dist/index.js';
import type { Envelope } from '../../src/task/envelope.ts';
import { makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { gate, migratedDatabase, until } from '../support/database.ts';
import { rabbitBroker } from '../support/rabbit-broker.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRabbit, type OwnRabbit } from '../support/rabbit-server.ts';

let server: OwnRabbit;

beforeAll(async () => {
  server = await startRabbit();
});

afterAll(async () => {
  await server.dispose();
});

/** With one row that it cannot publish. */
async function relayOf(queue: string) {
  const database = await migratedDatabase('blocked');
  onTestFinished(() => database.dispose());
  const outlast = createOutlast({
    database: database.url,
    broker: server.url,
    adapter: fromPg(database.pool),
  });
  const [one, opened] = [task(unique('one'), { queue }), gate()];
  outlast.on('relay:breaker-opened', () => opened.open());
  await outlast.transaction(tx => outlast.send(tx, one));
  const relay = await startRelay(outlast, { brokerOutageCooldown: '50ms', maxRetries: 1 });
  const rows = async () =>
    (await database.pool.query<{ retries: number }>('select retries from outlast_outbox')).rows;
  return { outlast, rows, relay, opened: opened.opened };
}

describe('a server that is out of memory', () => {
  it('blocks publishers, which write nothing more, and not consumers', async () => {
    const blocks: (string | null)[] = [];
    const broker = rabbitBroker(server.url, { onBlocked: reason => blocks.push(reason) });
    onTestFinished(() => broker.close());
    const queue = unique('queue');
    await broker.publish(makeEnvelopes(2, { queue }));
    await server.control('set_vm_memory_high_watermark', '0.0000001');
    // RabbitMQ notifies a connection when it publishes: the first message is on its way and waits.
    const waiting = broker.publish([makeEnvelope({ queue })]);
    // A run that notifies its caller does not wait either: a worker that consumes nothing would prolong the alarm.
    const answering = rabbitBroker({ url: server.url, replies: 'on' });
    onTestFinished(() => answering.close());
    const answer = { replyTo: unique('caller'), correlationId: 'id', body: '{}' };
    const answered = answering.reply?.([answer]);
    await until(async () => blocks.length > 0);
    expect(blocks[0]).toContain('memory');
    // A relay gets the same notification: its row stays, without a retry spent.
    const { outlast, rows, relay, opened } = await relayOf(unique('queue'));
    const late = makeEnvelopes(3, { queue });
    const outcomes = await broker.publish(late);
    expect(outcomes.map(({ status }) => status)).toEqual(Array(3).fill('unavailable'));
    expect(await answered).toMatchObject([{ status: 'unavailable' }]);
    const taken = await until(async () => {
      const deliveries = await broker.take([queue], 5);
      return deliveries.length > 0 && deliveries;
    });
    await broker.ack(taken);
    await opened;
    expect(await rows()).toEqual([{ retries: 0 }]);
    await server.control('set_vm_memory_high_watermark', '0.4');
    await until(async () => (await rows()).length === 0);
    await relay.stop();
    await outlast.close();
    expect(await waiting).toEqual([{ status: 'confirmed' }]);
    expect(blocks.at(-1)).toBeNull();
    expect(await broker.publish([makeEnvelope({ queue })])).toEqual([{ status: 'confirmed' }]);
    // Messages reported as unavailable were never written: none of them arrives now.
    const ids = taken.map(({ message }) => (message as Envelope).id);
    await until(async () => {
      const deliveries = await broker.take([queue], 10);
      await broker.ack(deliveries);
      ids.push(...deliveries.map(({ message }) => (message as Envelope).id));
      return ids.length === 4;
    });
    const rabbit = await RabbitInspector.connect(server.url);
    onTestFinished(() => rabbit.close());
    expect(await rabbit.depth(queue)).toBe(0);
    expect(ids).not.toEqual(expect.arrayContaining([late[0]?.id]));
  });
});

describe('a server that is killed and started again', () => {
  it('loses nothing: relay and worker reconnect by themselves, and no row spends a retry', async () => {
    const database = await migratedDatabase('restart');
    onTestFinished(() => database.dispose());
    const outlast = createOutlast({
      database: database.url,
      broker: server.url,
      adapter: fromPg(database.pool),
    });
    onTestFinished(() => outlast.close());
    const queue = unique('queue');
    const count = task(unique('count'), { queue, input: unchecked<number>() });
    const runs = new Map<number, number>();
    const handler = outlast.handler(count, value => {
      runs.set(value, (runs.get(value) ?? 0) + 1);
    });
    const patience = {
      brokerOutageCooldown: '200ms',
      publishConcurrency: 20,
      maxRetries: 1,
    } as const;
    const breaker: ('opened' | 'closed')[] = [];
    outlast.on('relay:breaker-opened', () => void breaker.push('opened'));
    outlast.on('relay:breaker-closed', () => void breaker.push('closed'));
    const relay = await startRelay(outlast, patience);
    onTestFinished(() => relay.stop());
    const worker = await startWorker(outlast, {
      tasks: [handler],
      queues: [queue],
      concurrency: 5,
    });
    onTestFinished(() => worker.stop());
    let sent = 0;
    const send = async (n: number): Promise<void> => {
      const calls = Array.from({ length: n }, () => count.with(sent++));
      await outlast.transaction(tx => outlast.sendMany(tx, calls));
    };
    await send(200);
    await until(async () => runs.size >= 20);
    await server.kill();
    await send(50);
    await until(async () => breaker.includes('opened'));
    await server.start();
    await send(50);
    await until(async () => runs.size === sent);
    const states = `select state, count(*)::int as n from outlast_task group by state`;
    await until(async () => {
      const { rows } = await database.pool.query<{ state: string; n: number }>(states);
      return rows.length === 1 && rows[0]?.state === 'done' && rows[0].n === sent;
    });
    expect(breaker.at(-1)).toBe('closed');
    // A single spent retry would have made a dead letter.
    expect((await database.pool.query('select 1 from outlast_dead_letter')).rowCount).toBe(0);
    // Each task was begun in the ledger once; what the broker redelivered was a copy.
    expect([...runs.values()].every(times => times === 1)).toBe(true);
  });
});

import { beforeAll, afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { ids, makeEnvelopes, MINUTE, unique } from '../conformance/envelopes.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';
import { openTestBroker, withRedis } from '../support/redis-broker.ts';
import { openTestLedger, type TestLedger } from '../support/redis-ledger.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';

let server: OwnRedis;

beforeAll(async () => {
  // It refuses a longer argument and closes the connection, as a server with its defaults does at 512 MB.
  server = await startRedis(['--proto-max-bulk-len', '10mb']);
});
afterAll(() => server.dispose());

async function openLedger(): Promise<LedgerDriver> {
  const fixture = await openTestLedger(server.url);
  onTestFinished(() => fixture.ledger.close());
  return new LedgerDriver(fixture);
}

/** How often the server has run a script. */
async function scriptCalls(): Promise<number> {
  const stats = await withRedis(server.url, redis => redis.command('info', 'commandstats'));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(stats))?.[1] ?? 0);
}

/** Of the slow log: number, time, microseconds, command. */
type SlowEntry = readonly [unknown, unknown, unknown, readonly unknown[]];

const bytes = (count: number): Uint8Array => new Uint8Array(count).fill(0x61);
/** Three of them are more than the server accepts in one argument. */
const LARGE = 3_600_000;
const large = (count: number) =>
  makeEnvelopes(count, { queue: unique('queue'), args: bytes(LARGE) });

describe('a ledger in Redis', () => {
  it('sends no more in one argument than the server accepts, whatever the batch', async () => {
    const driver = await openLedger();
    const { worker } = await driver.open();
    const messages = large(3);
    const { begun, answers } = await driver.begin(worker, { messages });
    expect(answers).toEqual(messages.map(() => 'begun'));
    const items = begun.map(ref => ({
      ref,
      outcome: { kind: 'done', result: bytes(LARGE) } as const,
      after: [],
      dedupMs: MINUTE,
      resultMs: MINUTE,
    }));
    expect(await driver.ledger.commit(items)).toEqual(items.map(() => 'ok'));
    const error = { type: 'Error', message: 'm', traceback: '' };
    const letters = large(3).map(envelope => ({
      kind: 'message' as const,
      envelope,
      reason: 'ERR_UNDECODABLE',
      error,
    }));
    expect(await driver.ledger.bury(letters)).toEqual(letters.map(() => 'ok'));
  });

  it('hands out a bounded number of bytes of waiting tasks, and the next call the rest', async () => {
    const driver = await openLedger();
    const { worker } = await driver.open();
    const tasks = large(4);
    await driver.put(...tasks);
    const given: number[] = [];
    const begun: string[] = [];
    while (begun.length < tasks.length) {
      const reply = await driver.begin(worker, { queues: [tasks[0]?.queue ?? ''], limit: 4 });
      given.push(reply.begun.length);
      begun.push(...ids(reply.begun));
    }
    expect(begun).toEqual(ids(tasks));
    expect(Math.max(...given)).toBeLessThanOrEqual(3);
  });

  it('begins more messages at once than the stack of a script holds', async () => {
    const driver = await openLedger();
    const { worker } = await driver.open();
    const queue = unique('queue');
    await driver.put(...makeEnvelopes(600, { queue }));
    const messages = makeEnvelopes(8_200, { queue });
    const asked = { messages, queues: [queue], limit: 9_000, isFirst: true };
    const reply = await driver.begin(worker, asked);
    // And as many waiting tasks as one call hands out.
    expect(reply.begun).toHaveLength(messages.length + 500);
    expect(reply.answers).toHaveLength(messages.length);
  });

  it('has no script in the slow log that did most of the work, however many tasks expire together', async () => {
    const driver = await openLedger();
    const { worker } = await driver.open();
    const queue = unique('queue');
    const expiresMs = (await driver.nowMs()) - MINUTE;
    const late = makeEnvelopes(10_000, { queue, expiresMs });
    await driver.put(...late);
    const { took, ended } = await withRedis(server.url, async redis => {
      await redis.command('config', 'set', 'slowlog-log-slower-than', '0');
      await redis.command('config', 'set', 'slowlog-max-len', '10000');
      await redis.command('slowlog', 'reset');
      let count = 0;
      while (count < late.length) {
        const reply = await driver.begin(worker, { queues: [queue], limit: 400 });
        count += reply.expired.length;
      }
      const entries = (await redis.command('slowlog', 'get', '10000')) as readonly SlowEntry[];
      const scripts = entries.filter(([, , , [name]]) => /^eval/i.test(String(name)));
      return { took: scripts.map(([, , micros]) => Number(micros)), ended: count };
    });
    expect(ended).toBe(late.length);
    const all = took.reduce((sum, micros) => sum + micros, 0);
    expect(took.length).toBeGreaterThan(0);
    expect(Math.max(...took)).toBeLessThan(all / 2);
  });

  it('closes a bounded number of lost incarnations at once, and the next call the rest', async () => {
    const driver = await openLedger();
    await Promise.all(Array.from({ length: 700 }, () => driver.open({ leaseMs: MINUTE })));
    await driver.fixture.advance(2 * MINUTE);
    const closed: number[] = [];
    for (let call = 0; call < 3; call++)
      closed.push((await driver.ledger.condemn({ kind: 'expired' })).workers.length);
    expect(closed).toEqual([500, 200, 0]);
  });

  it('brings back a bounded number of tasks at once, and the next calls the rest', async () => {
    const driver = await openLedger();
    const { worker } = await driver.open();
    await driver.begin(worker, { messages: makeEnvelopes(1_200, { queue: unique('queue') }) });
    await driver.ledger.condemn({ kind: 'worker', worker });
    const returned: number[] = [];
    for (let more = true; more;) {
      const reply = await driver.ledger.reap(10_000);
      returned.push(reply.returned.length);
      more = reply.more;
    }
    expect(returned.slice(0, 3)).toEqual([500, 500, 200]);
  });

  it('forgets a bounded number of closed incarnations at once', async () => {
    const driver = await openLedger();
    const { connection, root } = driver.fixture as TestLedger;
    const long = (await driver.nowMs()) - 10 * MINUTE;
    const closed = Array.from({ length: 1_200 }, (_, n) => [long, `gone-${n}`]).flat();
    await connection.command('zadd', `${root}closed`, ...closed);
    const left: unknown[] = [];
    for (let call = 0; call < 3; call++) {
      await driver.ledger.reap(10);
      left.push(await connection.command('zcard', `${root}closed`));
    }
    expect(left).toEqual([700, 200, 0]);
  });
});

describe('a broker on Redis', () => {
  it('takes a bounded number of bytes at once, and the next call the rest, in order', async () => {
    const { broker } = await openTestBroker(server.url);
    onTestFinished(() => broker.close());
    const messages = large(6);
    const queue = messages[0]?.queue ?? '';
    await broker.publish(messages);
    const taken: number[] = [];
    const order: string[] = [];
    while (order.length < messages.length) {
      const deliveries = await broker.take([queue], 6);
      taken.push(deliveries.length);
      order.push(...deliveries.map(({ message }) => ('id' in message ? message.id : '')));
      await broker.ack(deliveries);
    }
    expect(order).toEqual(ids(messages));
    expect(Math.max(...taken)).toBeLessThanOrEqual(4);
  });

  it('puts back thousands a few hundred at a time, in their order, also when it closes', async () => {
    const queue = unique('queue');
    const messages = makeEnvelopes(1_300, { queue });
    const first = await openTestBroker(server.url);
    await first.broker.publish(messages);
    const takeAll = async ({ broker }: typeof first) => {
      const taken = [
        ...(await broker.take([queue], 1_000)),
        ...(await broker.take([queue], 1_000)),
      ];
      expect(taken.map(({ message }) => ('id' in message ? message.id : ''))).toEqual(
        ids(messages),
      );
      return taken;
    };
    /** Each call blocks all other clients: there must be several. */
    const callsFor = async (fn: () => Promise<void>): Promise<number> => {
      const before = await scriptCalls();
      await fn();
      return (await scriptCalls()) - before;
    };
    const held = await takeAll(first);
    expect(await callsFor(() => first.broker.giveBack(held))).toBeGreaterThan(2);
    await takeAll(first);
    expect(await callsFor(() => first.broker.close())).toBeGreaterThan(2);
    const second = await openTestBroker(server.url);
    onTestFinished(() => second.broker.close());
    await second.broker.ack(await takeAll(second));
    expect(await second.broker.take([queue], 1)).toEqual([]);
  });
});

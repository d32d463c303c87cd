import { describe, expect, it } from 'vitest';
import { pack, unpack, type Packable } from '../../src/adapters/redis/redis-pack.ts';
import { ids, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';

import { openTestLedger, type TestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';

/** Their bodies have their own keys. */
const long = new TextEncoder().encode(`["${'x'.repeat(3_000)}"]`);

async function setup(): Promise<{ fixture: TestLedger; driver: LedgerDriver }> {
  const fixture = await openTestLedger(redisUrl());
  return { fixture, driver: new LedgerDriver(fixture) };
}

type Corrupt = (fixture: TestLedger, id: string) => Promise<unknown>;

const put: (raw: Buffer) => Corrupt = raw => (fixture, id) =>
  fixture.connection.command('set', `${fixture.root}t:${id}`, raw);

/** Puts another value at one position of the record. */
const at =
  (position: number, value: Packable): Corrupt =>
  async (fixture, id) => {
    const key = `${fixture.root}t:${id}`;
    const raw = (await fixture.connection.command('get', key)) as Buffer;
    const record = [...(unpack(raw) as Packable[])];
    record[position - 1] = value;
    await fixture.connection.command('set', key, pack(record));
  };

const list =
  (prefix: string): Corrupt =>
  async (fixture, id) => {
    const key = `${fixture.root}${prefix}${id}`;
    await fixture.connection.command('del', key);
    await fixture.connection.command('rpush', key, 'x');
  };

const POSITIONS = Array.from({ length: 30 }, (_, index) => index + 1);
/** Positions that may be false. */
const OPTIONAL = new Set([11, 12, 14, 29]);
const NUMBERS = new Set([2, 8, 9, 11, 12, 15, 16, 17, 18, 19, 20, 22, 23, 24, 26, 30]);

const CORRUPTIONS: readonly Corrupt[] = [
  put(Buffer.from('no record')),
  put(Buffer.alloc(0)),
  put(Buffer.from([0xdc, 0x00, 0x1e])),
  put(pack(['w', 0, 'cut'])),
  put(Buffer.concat([Buffer.alloc(100_000, 0x91), Buffer.from([0x01])])),
  list('t:'),
  list('b:'),
  ...POSITIONS.map(position => at(position, NUMBERS.has(position) ? 'text' : 7)),
  ...POSITIONS.map(position => at(position, ['nested'])),
  ...POSITIONS.filter(position => !OPTIONAL.has(position)).map(position => at(position, false)),
  ...[2, 15, 16, 18, 24].map(position => at(position, 1e300)),
  ...[2, 15, 18].map(position => at(position, NaN)),
];

async function beginAll(driver: LedgerDriver, worker: string, queue: string) {
  const [begun, unreadable]: [string[], string[]] = [[], []];
  for (let calls = 0; calls < 50; calls++) {
    const reply = await driver.begin(worker, { queues: [queue], limit: 500 });
    begun.push(...ids(reply.begun));
    unreadable.push(...ids(reply.unreadable ?? []));
    if (reply.begun.length === 0 && reply.nextDueMs === null) break;
  }
  return { begun, unreadable };
}

describe('records of a Redis ledger that another program has changed', () => {
  it('become dead letters when they would be begun, and the others are begun', async () => {
    const { fixture, driver } = await setup();
    const { worker } = await driver.open();
    const queue = unique('queue');
    const guilty = CORRUPTIONS.map((_, index) =>
      makeEnvelope({ queue, ...(index % 2 === 0 ? { args: long } : {}) }),
    );
    const others = makeEnvelopes(20, { queue });
    await driver.put(...guilty, ...others);
    for (const [index, corrupt] of CORRUPTIONS.entries())
      await corrupt(fixture, guilty[index]?.id ?? '');
    const stray = ['zadd', `${fixture.root}later:${queue}`, '1', 'nobody put this here'] as const;
    await fixture.connection.command(...stray);
    const { begun, unreadable } = await beginAll(driver, worker, queue);
    expect(begun.toSorted()).toEqual(ids(others).toSorted());
    expect(unreadable.toSorted()).toEqual([...ids(guilty), stray[3]].toSorted());
    const { items } = await fixture.reads.listDead({
      order: 'newest',
      cursor: null,
      limit: 500,
      taskName: null,
    });
    expect(ids(items).toSorted()).toEqual(ids(guilty).toSorted());
    for (const { id } of items) expect(await fixture.reads.showDead(id)).not.toBeNull();
    // The body has its own key, and stays.
    const whole = await fixture.reads.showDead(guilty[0]?.id ?? '');
    expect(Buffer.from(whole?.body ?? []).includes('x'.repeat(3_000))).toBe(true);
    expect((await fixture.reads.sample(10)).tasks).toMatchObject({ waiting: 0, running: 20 });
    await fixture.dispose();
  });

  it.each([
    ['commit', (driver: LedgerDriver, ref: never) => driver.ledger.commit([done(ref)])],
    ['fail', (driver: LedgerDriver, ref: never) => driver.ledger.fail([failed(ref)])],
    ['release', (driver: LedgerDriver, ref: never) => driver.ledger.release([ref])],
    ['cancel', (driver: LedgerDriver, ref: { id: string }) => driver.ledger.cancel(ref.id)],
  ] as const)('do not stop other tasks from being settled by %s', async (_, settle) => {
    const { fixture, driver } = await setup();
    const { worker } = await driver.open();
    const queue = unique('queue');
    const tasks = makeEnvelopes(2, { queue, args: long });
    await driver.put(...tasks);
    const { begun } = await driver.begin(worker, { queues: [queue], limit: 2 });
    const [guilty, other] = begun as readonly [never, never];
    await put(Buffer.from('no record'))(fixture, (guilty as { id: string }).id);
    await settle(driver, guilty);
    await driver.ledger.commit([done(other)]);
    const { tasks: sums } = await fixture.reads.sample(0);
    expect(sums).toMatchObject({ waiting: 0, running: 0, done: 1, dead: 1 });
    await fixture.dispose();
  });

  it('do not stop a reaper from bringing back the tasks of a dead worker', async () => {
    const { fixture, driver } = await setup();
    const { worker } = await driver.open();
    const queue = unique('queue');
    await driver.put(...makeEnvelopes(3, { queue }));
    const { begun } = await driver.begin(worker, { queues: [queue], limit: 3 });
    await put(Buffer.from('no record'))(fixture, begun[1]?.id ?? '');
    await at(16, 'text')(fixture, begun[2]?.id ?? '');
    await driver.ledger.condemn({ kind: 'worker', worker });
    await driver.ledger.reap(10);
    const { tasks } = await fixture.reads.sample(0);
    expect(tasks).toMatchObject({ waiting: 1, running: 0, dead: 2 });
    await fixture.dispose();
  });

  it('are revived only as far as they could be read: one without its epoch never runs', async () => {
    const { fixture, driver } = await setup();
    const { worker } = await driver.open();
    const queue = unique('queue');
    const [priority, epoch] = makeEnvelopes(2, { queue });
    if (!priority || !epoch) throw new Error('there are two');
    await driver.put(priority, epoch);
    await at(8, 'text')(fixture, priority.id);
    await at(2, 'text')(fixture, epoch.id);
    await beginAll(driver, worker, queue);
    for (const { id } of [priority, epoch]) expect(await driver.ledger.revive(id, 1)).toBe('ok');
    const { begun } = await driver.begin(worker, { queues: [queue], limit: 2 });
    const digests = new Map(begun.map(task => [task.id, task.envelope.digest]));
    expect(digests.get(priority.id)).toBe(priority.digest);
    expect(digests.get(epoch.id)).toBe('unreadable');
    await fixture.dispose();
  });

  it('are shown as dead before any worker has read them', async () => {
    const { fixture, driver } = await setup();
    const task = makeEnvelope({ queue: unique('queue') });
    await driver.put(task);
    await put(Buffer.from('no record'))(fixture, task.id);
    expect(await fixture.reads.states([task.id])).toEqual(['dead']);
    expect(await fixture.reads.inspect(task.id)).toMatchObject({ state: 'dead' });
    expect(await fixture.reads.recent(10)).toHaveLength(1);
    expect(await fixture.results.read(task.id)).toMatchObject({ state: 'dead' });
    await fixture.ledger.close();
  });
});

const done = (ref: { id: string; epoch: number; run: string }) => ({
  ref,
  outcome: { kind: 'done', result: null } as const,
  after: [],
  dedupMs: 60_000,
  resultMs: 60_000,
});
const failed = (ref: { id: string; epoch: number; run: string }) => ({
  ref,
  error: { type: 'Error', message: 'no', traceback: '' },
  delayMs: 0,
  reason: 'failed',
});

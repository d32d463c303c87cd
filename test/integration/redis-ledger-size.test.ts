import { describe, expect, it, onTestFinished } from 'vitest';
import { celeryResultKey } from '../../src/adapters/redis/redis-result-store.ts';
import { endedKey, type BegunTask } from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { EMBED } from '../../src/task/signature.ts';
import {
  bytesOf,
  HOUR,
  makeEnvelope,
  makeEnvelopes,
  MINUTE,
  plainEnvelope,
  unique,
} from '../conformance/envelopes.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';
import { openTestLedger, type TestLedger } from '../support/redis-ledger.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis } from '../support/redis-server.ts';
import { redisUrl } from '../support/servers.ts';

async function open(
  url: string,
): Promise<{ readonly fixture: TestLedger; readonly driver: LedgerDriver }> {
  const fixture = await openTestLedger(url);
  onTestFinished(() => fixture.ledger.close());
  return { fixture, driver: new LedgerDriver(fixture) };
}

const long = (): Envelope => makeEnvelope({ args: new Uint8Array(100_000).fill(0x61) });
const ALL_DEAD = {
  olderThanDeadMs: 0,
  olderThanCreatedMs: null,
  taskName: null,
  limit: 10,
  isDryRun: false,
};

describe('long bodies', () => {
  it('are unchanged after waiting and after a revival', async () => {
    const { driver, fixture } = await open(redisUrl());
    const envelope = long();
    const { task } = await driver.running(envelope);
    expect(bytesOf(task.envelope.body)).toEqual(bytesOf(envelope.body));
    await driver.release(task);
    const { task: second } = await driver.beginWaiting(envelope);
    expect(plainEnvelope(second.envelope)).toEqual(plainEnvelope(envelope));
    await driver.fail(second, { delayMs: null });
    const letter = await fixture.readModel.showDeadLetter(envelope.id);
    expect(bytesOf(letter?.body)).toEqual(bytesOf(envelope.body));
    await fixture.dispose();
  });

  it('are part of the follow-up of a task that did not succeed', async () => {
    const { driver } = await open(redisUrl());
    const [follows, ends] = [long(), makeEnvelope({ args: long().body, embed: EMBED })];
    for (const envelope of [follows, ends]) {
      await driver.running(envelope);
      await driver.ledger.cancel(envelope.id);
    }
    const entries = await driver.ledger.after.list(0, 10);
    expect(entries.map(({ key }) => key)).toEqual([endedKey(follows.id, 1)]);
    const [entry] = entries;
    if (entry === undefined || !('ended' in entry)) throw new Error('nothing was written down');
    expect(plainEnvelope(entry.ended.envelope)).toEqual(plainEnvelope(follows));
  });

  it('are deleted when their task ends, however it ends', async () => {
    const { driver, fixture } = await open(redisUrl());
    const [done, cancelled, purged] = [long(), long(), long()];
    const { task } = await driver.running(done);
    await driver.ledger.checkpoint(task, 1, new Uint8Array(100_000));
    await driver.commit(task);
    await driver.put(cancelled);
    await driver.ledger.cancel(cancelled.id);
    await driver.dead(purged);
    await fixture.advance(MINUTE);
    await driver.ledger.purgeDead(ALL_DEAD);
    const left = await fixture.connection.command('keys', `${fixture.root}[bc]:*`);
    expect(left).toEqual([]);
    await fixture.dispose();
  });
});

describe('an ended task', () => {
  it('leaves only the keys that all tasks share', async () => {
    const { driver, fixture } = await open(redisUrl());
    const plain = (): Envelope => makeEnvelope({ embed: EMBED });
    const first = await driver.running(makeEnvelope({ args: long().body, embed: EMBED }));
    const second = await driver.running(plain());
    await driver.ledger.checkpoint(first.task, 1, new Uint8Array(100_000));
    await driver.crash(first.worker);
    const { worker, task } = await driver.beginWaiting(first.envelope);
    expect(await driver.commit(task)).toBe('ok');
    expect(await driver.fail(second.task, { delayMs: null })).toBe('ok');
    const third = await driver.running(plain());
    await driver.ledger.cancel(third.envelope.id);
    for (const gone of [worker, second.worker, third.worker]) await driver.crash(gone);
    await fixture.advance(MINUTE);
    await driver.ledger.purgeDead(ALL_DEAD);
    await fixture.advance(40 * 24 * HOUR);
    await driver.reapAll();
    const left = (await fixture.connection.command('keys', `${fixture.root}*`)) as Buffer[];
    const names = left.map(key => String(key).slice(fixture.root.length)).toSorted();
    expect(names).toEqual(['ended', 'meta', 'newest', 'running', 'seq', 'tally']);
    const sums = (await fixture.connection.command('hvals', `${fixture.root}running`)) as Buffer[];
    expect(new Set(sums.map(String))).toEqual(new Set(['0']));
    await fixture.dispose();
  });
});

describe('the newest tasks', () => {
  it('list at least the last thousand, and stay bounded in memory', async () => {
    const fixture = await openTestLedger(redisUrl());
    const driver = new LedgerDriver(fixture);
    const { worker } = await driver.open();
    const ids: string[] = [];
    for (let batch = 0; batch < 12; batch++) {
      const messages = makeEnvelopes(250);
      await driver.begin(worker, { messages });
      ids.push(...messages.map(({ id }) => id));
    }
    const shown = await fixture.reads.recent(1_000);
    expect(shown.map(({ id }) => id).toSorted()).toEqual(ids.slice(-1_000).toSorted());
    const size = await fixture.connection.command('strlen', `${fixture.root}newest`);
    expect(size).toBeLessThanOrEqual(80_000);
    await fixture.dispose();
  });
});

describe('batches', () => {
  it('may be larger than what one script accepts', async () => {
    const { driver, fixture } = await open(redisUrl());
    const queue = unique('queue');
    const tasks = makeEnvelopes(1_200, { queue });
    await driver.put(...tasks);
    const { worker } = await driver.open();
    const begun: BegunTask[] = [];
    while (begun.length < 1_200) {
      const reply = await driver.begin(worker, { queues: [queue], limit: 1_200 });
      expect(reply.begun.length).toBeGreaterThan(0);
      begun.push(...reply.begun);
    }
    const statuses = await driver.ledger.commit(begun.map(task => driver.commitItem(task)));
    expect(statuses).toEqual(begun.map(() => 'ok'));
    expect((await fixture.reads.sample(0)).tasks).toMatchObject({ done: 1_200, running: 0 });
    await fixture.dispose();
  });
});

describe('a result of Celery', () => {
  it('is read up to a size, and refused beyond it', async () => {
    const { fixture } = await open(redisUrl());
    const id = unique('task');
    const key = celeryResultKey(id);
    onTestFinished(() =>
      withRedis(redisUrl(), async redis => void (await redis.command('del', key))),
    );
    const write = (length: number): Promise<unknown> => {
      const result = JSON.stringify('x'.repeat(length));
      const text = `{"status": "SUCCESS", "result": ${result}, "traceback": null, "children": [], "task_id": "${id}"}`;
      return fixture.connection.command('set', key, text);
    };
    await write(17_000_000);
    expect(await fixture.results.read(id)).toMatchObject({ ending: 'done' });
    await write(18_000_000);
    await expect(fixture.results.read(id)).rejects.toMatchObject({ code: 'ERR_PAYLOAD_TOO_LARGE' });
  });
});

describe('memory', () => {
  it('of a running task and of a tombstone is far below that of the predecessor', async () => {
    const server = await startRedis();
    onTestFinished(() => server.dispose());
    const { driver, fixture } = await open(server.url);
    const used = async (): Promise<number> =>
      Number(
        /used_memory:(\d+)/.exec(String(await fixture.connection.command('info', 'memory')))?.[1],
      );
    const args = new TextEncoder().encode(`["${'x'.repeat(180)}"]`);
    const tasks = makeEnvelopes(2_000, { queue: unique('queue'), args });
    const { worker } = await driver.open();
    await driver.begin(worker, { messages: [makeEnvelope()] });
    const before = await used();
    const begun = [];
    for (let at = 0; at < tasks.length; at += 100) {
      const reply = await driver.begin(worker, { messages: tasks.slice(at, at + 100) });
      begun.push(...reply.begun);
    }
    // The predecessor: 1,936 bytes and 11 keys for each.
    expect(((await used()) - before) / tasks.length).toBeLessThan(1_000);
    const keys = Number(await fixture.connection.command('dbsize'));
    expect(keys).toBeLessThan(tasks.length + 20);
    await driver.ledger.commit(begun.map(task => driver.commitItem(task)));
    expect(((await used()) - before) / tasks.length).toBeLessThan(550);
  });
});

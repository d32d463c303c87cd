import { readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MemoryGenerationStore } from '../support/memory-generation-store.ts';
import { EPOCHS_PER_GENERATION, generationOf } from '../../src/ledger/generation-store.ts';
import type { PublishEntry, RunRef } from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import {
  AWKWARD_BYTES,
  bytesOf,
  ids,
  makeEnvelope,
  makeEnvelopes,
  unique,
} from '../conformance/envelopes.ts';
import { LedgerDriver, runRef, sampleError } from '../conformance/ledger-driver.ts';
import { gate, until } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import {
  openTestLedger,
  type TestLedger,
  type TestLedgerOptions,
} from '../support/redis-ledger.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { startProxy, type ReplyProxy } from '../support/reply-proxy.ts';
import { redisUrl } from '../support/servers.ts';

interface Opened {
  readonly fixture: TestLedger;
  readonly driver: LedgerDriver;
}

async function open(url: string, options: TestLedgerOptions = {}): Promise<Opened> {
  const fixture = await openTestLedger(url, options);
  onTestFinished(() => fixture.ledger.close());
  return { fixture, driver: new LedgerDriver(fixture) };
}

async function own(args: readonly string[] = []): Promise<OwnRedis> {
  const server = await startRedis(args);
  onTestFinished(() => server.dispose());
  return server;
}

/** A task that waits, one that runs, one that is done with a result and one that is dead. */
async function oneOfEach(driver: LedgerDriver) {
  const [waiting, done] = [makeEnvelope({ priority: 4 }), makeEnvelope({ args: AWKWARD_BYTES })];
  await driver.put(waiting);
  const running = await driver.running();
  await driver.done(done, { outcome: { kind: 'done', result: AWKWARD_BYTES } });
  return { waiting, running, done, dead: await driver.dead() };
}

describe('a server that has forgotten its scripts', () => {
  it('gets each of them again, at any time in the life of a task', async () => {
    const { driver, fixture } = await open((await own()).url);
    const flush = async (): Promise<void> =>
      void (await fixture.connection.command('script', 'flush'));
    const envelope = makeEnvelope();
    await driver.put(envelope);
    await flush();
    const { worker, task } = await driver.beginWaiting(envelope);
    await flush();
    expect((await driver.ledger.renew(worker)).status).toBe('open');
    await flush();
    expect(await driver.fail(task)).toBe('ok');
    const { task: second } = await driver.beginWaiting(envelope);
    await flush();
    expect(await driver.commit(second)).toBe('ok');
    await flush();
    expect(await driver.state(envelope.id)).toBe('done');
  });
});

describe('a reply that was lost', () => {
  interface Lossy extends Opened {
    /** Runs a call whose reply is dropped, and then repeats it. */
    readonly twice: <T>(call: () => Promise<T>) => Promise<T>;
    readonly direct: Opened;
  }

  async function lossy(): Promise<Lossy> {
    const server = await own();
    const proxy: ReplyProxy = await startProxy(server.port);
    onTestFinished(() => proxy.close());
    const root = `outlast:${unique('ledger')}:`;
    const generations = new MemoryGenerationStore();
    const through = await open(`redis://127.0.0.1:${proxy.port}/0`, { root, generations });
    const direct = await open(server.url, { root, generations });
    const calls = async (): Promise<number> => {
      const stats = await direct.fixture.connection.command('info', 'commandstats');
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(stats))?.[1] ?? 0);
    };
    const twice = async <T>(call: () => Promise<T>): Promise<T> => {
      // Connected, and with the script loaded: only the call itself is on its way.
      await through.driver.nowMs();
      const before = await calls();
      proxy.muteReplies();
      const lost = call().then(
        () => 'answered',
        () => 'lost',
      );
      await until(async () => (await calls()) > before);
      proxy.heal();
      expect(await lost).toBe('lost');
      return await until(() => call().catch(() => null));
    };
    return { ...through, twice, direct };
  }

  it.each(['message', 'waiting'] as const)(
    'of a begin: the repeat returns the same %s task',
    async kind => {
      const { driver, direct, twice } = await lossy();
      const envelope = makeEnvelope();
      if (kind === 'waiting') await driver.put(envelope);
      const { worker } = await driver.open();
      const request = driver.request(worker, {
        messages: kind === 'message' ? [envelope] : [],
        queues: [envelope.queue],
        limit: 3,
      });
      await direct.driver.begin(worker, { run: unique('warm') });
      const reply = await twice(() => driver.ledger.begin(request));
      if (reply.status !== 'open') throw new Error('closed');
      expect(reply.begun.map(runRef)).toEqual([{ id: envelope.id, epoch: 1, run: request.run }]);
      expect(await driver.commit(reply.begun[0] as RunRef)).toBe('ok');
    },
  );

  const settling = {
    commit: (driver: LedgerDriver, ref: RunRef) => driver.commit(ref),
    fail: (driver: LedgerDriver, ref: RunRef) => driver.fail(ref),
    release: (driver: LedgerDriver, ref: RunRef) => driver.release(ref),
    bury: (driver: LedgerDriver, ref: RunRef) => driver.bury(ref),
    checkpoint: (driver: LedgerDriver, ref: RunRef) =>
      driver.ledger.checkpoint(ref, 1, AWKWARD_BYTES),
  };

  it.each(Object.entries(settling))(
    'of a %s: the repeat gets the same answer, and it is done once',
    async (_, step) => {
      const { driver, direct, twice } = await lossy();
      const first = await direct.driver.running();
      await step(direct.driver, first.task);
      const { envelope, task } = await direct.driver.running();
      expect(await twice(() => step(driver, task))).toBe('ok');
      const [once, repeated] = await Promise.all(
        [first.envelope, envelope].map(({ id }) => direct.fixture.readModel.inspect(id)),
      );
      const shape = (details: typeof once) => ({
        state: details?.state,
        failures: details?.failures,
        history: details?.history.map(entry => entry.step),
      });
      expect(shape(repeated ?? null)).toEqual(shape(once ?? null));
      await direct.fixture.dispose();
    },
  );

  it('of a park, a cancel and a bury of a message: one record each', async () => {
    const { driver, direct, twice } = await lossy();
    const [parked, cancelled, buried] = makeEnvelopes(3) as [Envelope, Envelope, Envelope];
    await direct.driver.put(makeEnvelope());
    await direct.driver.ledger.cancel(unique('task'));
    const item = { reason: 'ERR_UNDECODABLE', error: sampleError('x'), kind: 'message' } as const;
    await direct.driver.ledger.bury([{ ...item, envelope: makeEnvelope() }]);
    const before = (await direct.fixture.reads.sample(0)).tasks;
    await twice(() => driver.put(parked).then(() => true));
    expect(await twice(() => driver.ledger.cancel(cancelled.id))).toBe('ok');
    expect(await twice(() => driver.ledger.bury([{ ...item, envelope: buried }]))).toEqual(['ok']);
    expect((await direct.fixture.reads.sample(0)).tasks).toEqual({
      ...before,
      waiting: before.waiting + 1,
      cancelled: before.cancelled + 1,
      dead: before.dead + 1,
    });
    await direct.fixture.dispose();
  });

  it('of a condemn and a reap: every crash is counted once', async () => {
    const { driver, direct, twice } = await lossy();
    await direct.driver.crash((await direct.driver.running()).worker);
    const { worker, envelope } = await direct.driver.running();
    await twice(() => driver.ledger.condemn({ kind: 'worker', worker }));
    await twice(() => driver.ledger.reap(10));
    const details = await direct.fixture.readModel.inspect(envelope.id);
    expect(details).toMatchObject({ state: 'waiting', crashes: 1 });
    await direct.fixture.dispose();
  });

  it('leaves no task running under a worker that does not know of it', async () => {
    const { driver, direct, twice } = await lossy();
    const { worker } = await driver.open();
    const envelope = makeEnvelope();
    await driver.put(envelope);
    await direct.driver.begin(worker, { run: unique('warm') });
    const request = driver.request(worker, { queues: [envelope.queue], limit: 1 });
    await twice(() => driver.ledger.begin(request));
    // The process gave up: its next heartbeat returns the run, and it releases it.
    const beat = await driver.ledger.renew(worker);
    if (beat.status !== 'open') throw new Error('closed');
    expect(beat.runs).toEqual([{ id: envelope.id, epoch: 1, run: request.run }]);
    expect(await driver.ledger.release(beat.runs ?? [])).toEqual(['ok']);
    expect(ids([(await driver.beginWaiting(envelope)).task])).toEqual([envelope.id]);
  });
});

describe('a server that restarts', () => {
  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'has everything after %s, with an append-only file that is always synced',
    async signal => {
      const server = await own(['--appendonly', 'yes', '--appendfsync', 'always']);
      const { driver, fixture } = await open(server.url);
      const { waiting, running, done, dead } = await oneOfEach(driver);
      const before = await fixture.reads.sample(0);
      await server.stop(signal);
      await expect(driver.commit(running.task)).rejects.toMatchObject({
        code: 'ERR_STORE_UNAVAILABLE',
      });
      await server.start();
      await until(() => driver.nowMs().catch(() => null));
      expect(await fixture.reads.sample(0)).toEqual(before);
      expect(await driver.commit(running.task)).toBe('ok');
      const { result } = await fixture.results.read(done.id);
      expect(bytesOf(result)).toEqual(bytesOf(AWKWARD_BYTES));
      expect(await driver.state(dead.id)).toBe('dead');
      expect(ids([(await driver.beginWaiting(waiting)).task])).toEqual([waiting.id]);
      await fixture.dispose();
    },
  );

  it('gives out higher epochs than before the restart, to known and new tasks', async () => {
    const server = await own(['--appendonly', 'yes']);
    const { driver } = await open(server.url);
    const { envelope, task } = await driver.running();
    expect(generationOf(task.epoch)).toBe(0);
    await driver.release(task);
    await server.stop('SIGKILL');
    await server.start();
    await until(() => driver.nowMs().catch(() => null));
    const { task: next } = await driver.beginWaiting(envelope);
    expect(next.epoch).toBe(EPOCHS_PER_GENERATION + 1);
    expect((await driver.running()).task.epoch).toBe(EPOCHS_PER_GENERATION + 1);
    await driver.release(next);
    expect((await driver.beginWaiting(envelope)).task.epoch).toBe(EPOCHS_PER_GENERATION + 2);
  });

  it('without the tail of its append-only file gives out no epoch twice', async () => {
    const server = await own(['--appendonly', 'yes', '--appendfsync', 'always']);
    const { driver } = await open(server.url);
    const { envelope, task: first } = await driver.running();
    await driver.release(first);
    const folder = join(server.folder, 'appendonlydir');
    const name = readdirSync(folder).find(file => file.endsWith('.incr.aof')) ?? '';
    const { size } = statSync(join(folder, name));
    const { task: second } = await driver.beginWaiting(envelope);
    await server.stop('SIGKILL');
    truncateSync(join(folder, name), size);
    await server.start();
    await until(() => driver.nowMs().catch(() => null));
    expect(await driver.state(envelope.id)).toBe('waiting');
    const { task: third } = await driver.beginWaiting(envelope);
    expect(third.epoch).toBeGreaterThan(second.epoch);
    expect(await driver.commit(second)).toBe('stale');
    expect(await driver.commit(third)).toBe('ok');
  });

  it('emits hints again by itself', async () => {
    const server = await own();
    const { driver } = await open(server.url);
    const hinted = gate();
    onTestFinished(driver.ledger.onReady(() => hinted.open()));
    await server.stop('SIGKILL');
    await server.start();
    const put = (): Promise<true | null> =>
      driver.put(makeEnvelope()).then(
        () => true as const,
        () => null,
      );
    let isHinted = false;
    void hinted.opened.then(() => (isHinted = true));
    await until(async () => (await put()) === true && isHinted);
  });
});

describe('a ledger that has lost its data', () => {
  const losses = {
    'by FLUSHALL': async (server: OwnRedis) =>
      void (await withRedis(server.url, redis => redis.command('flushall'))),
    'by a restart without a file': async (server: OwnRedis) => {
      await server.stop('SIGKILL');
      await server.start();
    },
  };

  it.each(Object.entries(losses))('%s: answers absent to every run', async (_, lose) => {
    const server = await own();
    const { driver } = await open(server.url);
    const { worker, envelope, task } = await driver.running();
    await lose(server);
    await until(() => driver.nowMs().catch(() => null));
    expect(await driver.ledger.renew(worker)).toEqual({ status: 'closed' });
    expect(await driver.commit(task)).toBe('absent');
    expect(await driver.fail(task)).toBe('absent');
    expect(await driver.release(task)).toBe('absent');
    expect(await driver.bury(task)).toBe('absent');
    expect(await driver.ledger.checkpoint(task, 1, AWKWARD_BYTES)).toBe('absent');
    const request = driver.request(worker, { messages: [envelope] });
    expect(await driver.ledger.begin(request)).toEqual({ status: 'closed' });
    expect(await driver.state(envelope.id)).toBeUndefined();
  });

  it.each(Object.entries(losses))(
    '%s: begins the same task under a higher epoch than before',
    async (_, lose) => {
      const server = await own();
      const generations = new MemoryGenerationStore();
      const { driver } = await open(server.url, { generations, root: 'outlast:lost:' });
      const { envelope, task } = await driver.running();
      await lose(server);
      await until(() => driver.nowMs().catch(() => null));
      // Another process goes first, which has never seen the lost data.
      const other = await open(server.url, { generations, root: 'outlast:lost:' });
      for (const each of [other.driver, driver]) {
        const { worker } = await each.open();
        const { begun } = await each.begin(worker, { messages: [makeEnvelope(), envelope] });
        for (const next of begun) expect(next.epoch).toBeGreaterThan(task.epoch);
        expect(begun.map(({ epoch }) => generationOf(epoch))).toEqual(begun.map(() => 1));
      }
    },
  );

  it('accepts running tasks again, and none that it has pruned itself', async () => {
    const server = await own();
    const { driver } = await open(server.url);
    const { envelope, task } = await driver.running();
    const forgotten = { epoch: task.epoch, envelope: makeEnvelope() };
    await driver.ledger.rescue?.([forgotten]);
    expect(await driver.state(forgotten.envelope.id)).toBeUndefined();
    await losses['by FLUSHALL'](server);
    const held = await driver.running();
    const isNewer = { epoch: held.task.epoch, envelope: makeEnvelope() };
    const isRunning = { epoch: task.epoch, envelope: held.envelope };
    const lost = { epoch: task.epoch, envelope };
    await driver.ledger.rescue?.([lost, lost, isNewer, isRunning]);
    expect(await driver.state(isNewer.envelope.id)).toBeUndefined();
    expect(await driver.commit(held.task)).toBe('ok');
    const { task: again } = await driver.beginWaiting(envelope);
    expect(generationOf(again.epoch)).toBe(1);
    expect(await driver.commit(again)).toBe('ok');
  });

  it('raises the generation once when many processes notice the loss at the same time', async () => {
    const server = await own();
    const generations = new MemoryGenerationStore();
    const options = { generations, root: 'outlast:lost:' };
    const many = await Promise.all([1, 2, 3, 4, 5].map(() => open(server.url, options)));
    for (const { driver } of many) await driver.running();
    await withRedis(server.url, redis => redis.command('flushall'));
    const epochs = await Promise.all(
      many.map(async ({ driver }) => {
        const { worker } = await driver.open();
        const { begun } = await driver.begin(worker, { messages: [makeEnvelope()] });
        return begun[0]?.epoch;
      }),
    );
    expect(new Set(epochs)).toEqual(new Set([EPOCHS_PER_GENERATION + 1]));
  });

  it('uses the server time as generation where no database stores one', async () => {
    const server = await own();
    const first = await open(server.url, { generations: null, root: 'outlast:lost:' });
    const { envelope, task } = await first.driver.running();
    const seconds = Math.floor((await first.driver.nowMs()) / 1_000);
    expect(generationOf(task.epoch)).toBeGreaterThan(seconds - 60);
    expect(generationOf(task.epoch)).toBeLessThanOrEqual(seconds);
    expect(Number.isSafeInteger(task.epoch)).toBe(true);
    await withRedis(server.url, redis => redis.command('flushall'));
    const { task: next } = await first.driver.running(envelope);
    expect(next.epoch).toBeGreaterThan(task.epoch);
    expect(await first.driver.commit(next)).toBe('ok');
  });

  it('is not confused with the server that it replaced, by processes that never saw that one', async () => {
    const [replaced, current] = [await own(), await own()];
    const options = { generations: new MemoryGenerationStore(), root: 'outlast:lost:' };
    const { driver: old } = await open(replaced.url, options);
    expect(generationOf((await old.running()).task.epoch)).toBe(0);
    const { driver } = await open(current.url, options);
    const { task } = await driver.running();
    expect(generationOf(task.epoch)).toBe(1);
    // The replaced server still runs, and has noticed nothing.
    const { driver: stray } = await open(replaced.url, options);
    expect(generationOf((await stray.running()).task.epoch)).toBe(2);
  });

  it('raises the generation of a server that has older data than this process has seen', async () => {
    const server = await own();
    const generations = new MemoryGenerationStore();
    const { driver, fixture } = await open(server.url, { generations, root: 'outlast:lost:' });
    await driver.running();
    await server.stop('SIGKILL');
    await server.start();
    await until(() => driver.nowMs().catch(() => null));
    expect(generationOf((await driver.running()).task.epoch)).toBe(1);
    // Its data were replaced by older ones, as by a full synchronisation, without a disconnect.
    await fixture.connection.command('hset', 'outlast:lost:meta', 'generation', '0');
    expect(generationOf((await driver.running()).task.epoch)).toBe(2);
  });
});

describe('a primary that is lost before its replica has everything', () => {
  it('refuses runs that the replica does not know, and gives out higher epochs', async () => {
    const primary = await own();
    const replica = await own(['--replicaof', '127.0.0.1', String(primary.port)]);
    const generations = new MemoryGenerationStore();
    const options = { generations, root: 'outlast:failover:' };
    const before = await open(primary.url, options);
    const envelope = makeEnvelope();
    const { task: first } = await before.driver.running(envelope);
    await before.driver.release(first);
    await until(() =>
      withRedis(replica.url, async redis => {
        const info = String(await redis.command('info', 'replication'));
        const offset = /slave_repl_offset:(\d+)/.exec(info)?.[1];
        const sent = String(await before.fixture.connection.command('info', 'replication'));
        return info.includes('link_status:up') && sent.includes(`offset=${offset},`);
      }),
    );
    // From here on nothing is replicated to it.
    await withRedis(replica.url, redis => redis.command('replicaof', 'no', 'one'));
    const { task: second } = await before.driver.beginWaiting(envelope);
    const unseen = await before.driver.running();
    await primary.stop('SIGKILL');
    const after = await open(replica.url, options);
    expect(await after.driver.commit(second)).toBe('stale');
    expect(await after.driver.commit(unseen.task)).toBe('absent');
    const { task: third } = await after.driver.beginWaiting(envelope);
    expect(third.epoch).toBeGreaterThan(second.epoch);
    expect(await after.driver.commit(second)).toBe('stale');
    expect(await after.driver.commit(third)).toBe('ok');
  });
});

describe('a server whose memory is full', () => {
  async function full(options: TestLedgerOptions = {}) {
    const server = await own(['--maxmemory-policy', 'noeviction']);
    const opened = await open(server.url, options);
    const { driver, fixture } = opened;
    const queue = unique('queue');
    const waiting = makeEnvelopes(3, { queue });
    await driver.put(...waiting);
    const runs = [];
    for (let n = 0; n < 5; n++) runs.push(await driver.running());
    const used = String(await fixture.connection.command('info', 'memory'));
    const bytes = Number(/used_memory:(\d+)/.exec(used)?.[1]);
    await fixture.connection.command('config', 'set', 'maxmemory', Math.floor(bytes / 2));
    return { ...opened, queue, waiting, runs, server };
  }

  it('lets every existing task end', async () => {
    const { driver, fixture, queue, waiting, runs } = await full();
    const [one, two, three, four, five] = runs.map(({ task }) => task as RunRef) as unknown as [
      RunRef,
      RunRef,
      RunRef,
      RunRef,
      RunRef,
    ];
    const after: PublishEntry[] = [{ key: unique('after'), publish: makeEnvelope() }];
    expect(
      await driver.commit(one, { after, outcome: { kind: 'done', result: AWKWARD_BYTES } }),
    ).toBe('ok');
    expect(await driver.fail(two)).toBe('ok');
    expect(await driver.release(three)).toBe('ok');
    expect(await driver.bury(four)).toBe('ok');
    expect(await driver.ledger.checkpoint(five, 1, new Uint8Array(10_000))).toBe('ok');
    const { worker } = await driver.open();
    const { begun } = await driver.begin(worker, { queues: [queue], limit: 5 });
    expect(ids(begun).sort()).toEqual(ids(waiting).sort());
    expect(await driver.ledger.renew(worker)).toMatchObject({ status: 'open' });
    await driver.crash(worker);
    const { begun: again } = await driver.begin((await driver.open()).worker, {
      queues: [queue],
      limit: 5,
    });
    expect(again.map(task => task.crashes)).toEqual([1, 1, 1]);
    const undecodable = {
      kind: 'message',
      envelope: makeEnvelope(),
      reason: 'ERR_UNDECODABLE',
      error: sampleError('x'),
    } as const;
    expect(await driver.ledger.bury([undecodable])).toEqual(['ok']);
    expect(await driver.ledger.cancel(unique('task'))).toBe('ok');
    await driver.ledger.after.strike(after.map(({ key }) => key));
    await fixture.dispose();
  });

  it('refuses new tasks, which stay with their sender', async () => {
    const { driver } = await full();
    const { worker } = await driver.open();
    const message = makeEnvelope();
    const refusal = { code: 'ERR_STORE_UNAVAILABLE' };
    await expect(driver.begin(worker, { messages: [message] })).rejects.toMatchObject(refusal);
    await expect(driver.put(message)).rejects.toMatchObject(refusal);
    await expect(driver.ledger.park([])).rejects.toMatchObject(refusal);
    expect(await driver.state(message.id)).toBeUndefined();
  });

  it('still begins and parks messages that come from the same server', async () => {
    const { driver } = await full({ beginsWhenFull: true });
    const { worker } = await driver.open();
    const { begun } = await driver.begin(worker, { messages: [makeEnvelope()] });
    expect(await driver.commit(begun[0] as RunRef)).toBe('ok');
    const early = makeEnvelope();
    await driver.ledger.park([{ envelope: early, delayMs: 60_000 }]);
    expect(await driver.state(early.id)).toBe('waiting');
  });
});

describe('the result that Celery reads', () => {
  it('is that of the run that owned the task, even if a stale run commits later', async () => {
    const { driver, fixture } = await open(redisUrl(), { celeryResultMs: 60_000 });
    const { worker, envelope, task: old } = await driver.running();
    const done = (text: string) =>
      ({ outcome: { kind: 'done', result: new TextEncoder().encode(text) } }) as const;
    const celeryResult = async (): Promise<unknown> => {
      const key = `celery-task-meta-${envelope.id}`;
      const text = (await fixture.connection.command('get', key)) as Buffer | null;
      return text === null ? null : JSON.parse(text.toString());
    };
    await driver.crash(worker);
    const { task: next } = await driver.beginWaiting(envelope);
    const interfere = async (): Promise<void> => {
      expect(await driver.commit(old, done('"stale"'))).toBe('stale');
      expect(await driver.fail(old, { delayMs: null })).toBe('stale');
      expect(await driver.bury(old)).toBe('stale');
    };
    await interfere();
    expect(await celeryResult()).toBeNull();
    expect(await driver.commit(next, done('"rightful"'))).toBe('ok');
    await interfere();
    expect(await celeryResult()).toMatchObject({ status: 'SUCCESS', result: 'rightful' });
  });
});

describe('a key that is gone', () => {
  it('is never taken for success, whichever key it is', async () => {
    const names = async ({ fixture }: Opened): Promise<string[]> =>
      ((await fixture.connection.command('keys', `${fixture.root}*`)) as Buffer[]).map(key =>
        String(key).slice(fixture.root.length),
      );
    const prepare = async (opened: Opened) => {
      const running = await opened.driver.running();
      await opened.driver.ledger.checkpoint(running.task, 1, AWKWARD_BYTES);
      await opened.driver.dead();
      await opened.driver.put(makeEnvelope());
      return running;
    };
    const kinds = async (): Promise<string[]> => {
      const opened = await open(redisUrl());
      await prepare(opened);
      return [...new Set((await names(opened)).map(name => name.replace(/:.*/, ':')))];
    };
    for (const kind of await kinds()) {
      const opened = await open(redisUrl());
      const { driver, fixture } = opened;
      const { worker, envelope, task } = await prepare(opened);
      const dropped = (await names(opened)).filter(name => name.replace(/:.*/, ':') === kind);
      await fixture.connection.command('del', ...dropped.map(name => fixture.root + name));
      const isRecordGone = kind === 't:';
      const isWorkerGone = ['leases', 'workers'].includes(kind);
      const beat = await driver.ledger.renew(worker);
      expect([kind, beat.status]).toEqual([kind, isWorkerGone ? 'closed' : 'open']);
      const copy = await driver.ledger.begin(driver.request(worker, { messages: [envelope] }));
      const isRefused = copy.status === 'closed' || copy.answers[0] === 'held';
      expect([kind, isRefused || isRecordGone]).toEqual([kind, true]);
      if (!isRecordGone) {
        expect([kind, await driver.commit(task)]).toEqual([kind, 'ok']);
        expect(await driver.state(envelope.id)).toBe('done');
        continue;
      }
      // It began again as an unknown message; the earlier run is not the owner.
      expect(await driver.commit({ ...task, run: unique('run') })).toBe('stale');
    }
  });
});

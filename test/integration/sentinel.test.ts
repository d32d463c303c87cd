import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import { createOutlast, task, unchecked, type Outlast, type TaskHandle } from '../../dist/index.js';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';
import { CliProject, json, type CliProcess } from '../support/cli-project.ts';
import { migratedDatabase, until } from '../support/database.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { startWatchedRedis, type WatchedRedis } from '../support/redis-sentinels.ts';

const PROJECT = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({
      tasks: ['./handlers.mjs'],
      worker: { lease: '5s', beat: '500ms' },
      relay: { maxRetries: 1, backoffTime: '1ms', brokerOutageCooldown: '1s', receiptTimeout: '2s' },
    });`,
  'handlers.mjs': `
    import { appendFileSync, existsSync } from 'node:fs';
    import { createOutlast, task, unchecked } from 'outlast';
    import config from './outlast.config.mjs';
    const outlast = createOutlast(config);
    const options = { input: unchecked(), result: unchecked() };
    const say = ctx => appendFileSync('runs', ctx.id + ' ' + ctx.fence + '\\n');
    export const echo = outlast.handler(task('watched.echo', options), (input, ctx) => {
      say(ctx);
      return input;
    });
    export const held = outlast.handler(task('watched.held', options), async (input, ctx) => {
      say(ctx);
      while (!existsSync('open')) await new Promise(resolve => setTimeout(resolve, 20));
      return input;
    });`,
};

const options = { input: unchecked<number>(), result: unchecked<number>() };
const echo = task('watched.echo', options);
const held = task('watched.held', options);
const durable = { ...options, durability: 'end-to-end' } as const;
const sureEcho = task('watched.echo', durable);
const sureHeld = task('watched.held', durable);

interface Setup {
  readonly redis: WatchedRedis;
  readonly project: CliProject;
  readonly outlast: Outlast;
  /** How often a task was begun. */
  readonly runsOf: (id: string) => number;
  /** The fences it was begun under, in order. */
  readonly fencesOf: (id: string) => readonly number[];
  readonly work: (queue: string) => Promise<CliProcess>;
}

/** A relay and a user's program that know Redis by its sentinels only. */
async function open(canBeDeaf: boolean): Promise<Setup> {
  const redis = await startWatchedRedis({ canBeDeaf });
  onTestFinished(() => redis.dispose());
  const database = await migratedDatabase('sentinel');
  onTestFinished(() => database.dispose());
  const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: redis.url };
  const project = new CliProject(PROJECT, env);
  onTestFinished(() => project.dispose());
  const outlast = createOutlast({ database: database.url, broker: redis.url });
  onTestFinished(() => outlast.close());
  project.start(['relay']);
  const fencesOf = (id: string): readonly number[] => {
    const file = join(project.folder, 'runs');
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
    const runs = lines.map(line => line.split(' '));
    return runs.filter(([name]) => name === id).map(([, fence]) => Number(fence));
  };
  const runsOf = (id: string): number => fencesOf(id).length;
  const work = async (queue: string): Promise<CliProcess> => {
    const worker = project.start(['worker', '--queues', queue]);
    await worker.says('worker open');
    return worker;
  };
  return { redis, project, outlast, runsOf, fencesOf, work };
}

/** A separate ledger on the same servers, and the epoch of one task that it begins. */
async function ledgerOn(redis: WatchedRedis): Promise<{ begin(): Promise<number> }> {
  const fixture = await openTestLedger(redis.url);
  onTestFinished(() => fixture.ledger.close());
  const driver = new LedgerDriver(fixture);
  const { worker } = await driver.open();
  await driver.begin(worker, { messages: [makeEnvelope()] });
  const messages = [makeEnvelope()];
  const begin = async (): Promise<number> =>
    (await driver.begin(worker, { messages })).begun[0]?.epoch ?? 0;
  return { begin };
}

const outboxOf = async (outlast: Outlast) => (await createAdmin(outlast).stats()).outbox;

/** The tasks are in Redis: their rows are gone, or marked as sent where they stay until the end. */
const untilRelayed = (outlast: Outlast): Promise<unknown> =>
  until(async () => {
    const { pending, claimed } = await outboxOf(outlast);
    return pending + claimed === 0;
  });

describe('workers, relay and ledger on a Redis behind sentinels', () => {
  it('recover by themselves after a switchover and after the death of the primary; nothing durable is lost', async () => {
    const { redis, project, outlast, runsOf, work } = await open(false);
    const worker = await work('default');
    const running = await outlast.transaction(tx => outlast.send(tx, sureHeld, 7));
    await until(async () => runsOf(running.id));
    const flood = async (from: number) => {
      const calls = Array.from({ length: 200 }, (_, n) => sureEcho.with(from + n));
      const handles = await outlast.transaction(tx => outlast.sendMany(tx, calls));
      await until(async () => handles.some(({ id }) => runsOf(id) > 0));
      return handles;
    };
    // Results may be lost with the last writes of a primary; a task that has not run is not.
    const allRan = async (handles: readonly TaskHandle[]) => {
      await until(async () => handles.every(({ id }) => runsOf(id) > 0));
      const next = await outlast.transaction(tx => outlast.send(tx, sureEcho, 1));
      expect(await next.result({ timeout: '60s' })).toBe(1);
    };
    // In the middle of it, each time.
    const first = await flood(0);
    await redis.exchange();
    await allRan(first);
    await redis.copied();
    const second = await flood(1_000);
    const doomed = await redis.primary();
    await doomed.stop('SIGKILL');
    await allRan(second);
    expect(await redis.primary()).not.toBe(doomed);
    project.write('open', '');
    expect(await running.result({ timeout: '60s' })).toBe(7);
    await until(async () => (await outboxOf(outlast)).sent === 0);
    const { tasks } = await until(async () => {
      const stats = await createAdmin(outlast).stats();
      return stats.tasks.waiting + stats.tasks.running === 0 && stats;
    });
    expect(tasks.dead).toBe(0);
    expect((await createAdmin(outlast).deadLetters.list()).items).toEqual([]);
    expect(await worker.stop()).toMatchObject({ code: 0 });
  });

  it('lose with a primary exactly the tasks that its replica did not have, and none that is durable', async () => {
    const { redis, project, outlast, runsOf, fencesOf, work } = await open(true);
    await work('default');
    const later = unique('later');
    const send = async (one: typeof echo, count: number): Promise<readonly string[]> => {
      const calls = Array.from({ length: count }, (_, n) => one.with(n, { queue: later }));
      const handles = await outlast.transaction(tx => outlast.sendMany(tx, calls));
      await untilRelayed(outlast);
      return handles.map(({ id }) => id);
    };
    const kept = await send(echo, 5);
    const ledger = await ledgerOn(redis);
    await redis.copied();
    redis.deafen();
    const before = await ledger.begin();
    const lost = await send(echo, 7);
    const saved = await send(sureEcho, 9);
    const running = await outlast.transaction(tx => outlast.send(tx, held, 7));
    await until(async () => runsOf(running.id));
    const doomed = await redis.primary();
    await doomed.stop('SIGKILL');
    // One call after the other waits for a connection, until there is one to the new primary.
    const waiting = until(() => ledger.begin().catch(() => null));
    await until(async () => (await redis.primary()) !== doomed);
    expect(await waiting).toBeGreaterThan(before);
    await work(later);
    for (const id of [...kept, ...saved]) await outlast.find(echo, id).result({ timeout: '90s' });
    project.write('open', '');
    // The new primary does not know the run: its worker has handed the task in again.
    expect(await running.result({ timeout: '60s' })).toBe(7);
    const fences = fencesOf(running.id);
    expect(fences.length).toBeGreaterThan(1);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
    await until(async () => (await outboxOf(outlast)).sent === 0);
    const told = await project.run('stats', '--json');
    expect(json<{ tasks: object }>(told.stdout).tasks).toMatchObject({ waiting: 0, dead: 0 });
    const gone = [...kept, ...lost, ...saved].filter(id => runsOf(id) === 0);
    expect(gone).toEqual(lost);
    for (const id of lost) expect(await outlast.find(echo, id).state()).toBe('unknown');
  });
});

import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin } from '../../dist/admin/index.js';
import { createOutlast, startWorker, task, unchecked } from '../../dist/index.js';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresLedgerReads } from '../../src/adapters/postgres/postgres-ledger-reads.ts';
import { RedisLedgerReads } from '../../src/adapters/redis/redis-ledger-reads.ts';
import { burnReport } from '../../src/ledger/burn-rate.ts';
import type { LedgerReads } from '../../src/ledger/ledger-reads.ts';
import { unique } from '../conformance/envelopes.ts';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';

const MINUTE = 60_000;
const HOUR = 3_600_000;

let database: MigratedDatabase;
let redis: OwnRedis;

beforeAll(async () => {
  database = await migratedDatabase('slo');
  redis = await startRedis();
});

afterAll(async () => {
  await redis.dispose();
  await database.dispose();
});

describe.each(['PostgreSQL', 'Redis'])('an slo, with the ledger in %s', store => {
  it('is told by the worker, and its burn rates follow what the worker does', async () => {
    const broker = store === 'Redis' ? { broker: redis.url } : {};
    const adapter = fromPg(database.pool);
    const outlast = createOutlast({ database: database.url, adapter, ...broker });
    onTestFinished(() => outlast.close());
    const name = unique('slo');
    const slo = { success: 0.9, latency: { within: '1h', target: 0.5 } } as const;
    const input = unchecked<{ readonly n: number }>();
    const pay = task(name, { input, slo, queue: unique('slo-queue') });
    const run = async ({ n }: { readonly n: number }): Promise<void> => {
      if (n === 0) throw new Error('declined');
    };
    const handler = outlast.handler(pay, { run, retry: { maxAttempts: 1 } });
    const worker = await startWorker(outlast, { tasks: [handler], queues: [pay.contract.queue] });
    onTestFinished(() => worker.stop());
    for (let n = 0; n < 4; n++) await outlast.push(pay, { n });
    const admin = createAdmin(outlast);
    const [success, latency] = await until(async () => {
      const { objectives } = await admin.slo();
      const own = objectives.filter(one => one.task === name);
      const { good = 0, bad = 0 } = own[0]?.windows['5m'] ?? {};
      return good + bad === 4 && own;
    });
    expect(success).toMatchObject({ objective: 'success', target: 0.9, status: 'ticket' });
    expect(success?.windows['5m']).toMatchObject({ good: 3, bad: 1 });
    expect(success?.windows['3d'].burnRate).toBeCloseTo(2.5, 9);
    expect(latency).toMatchObject({ objective: 'latency', withinMs: HOUR, status: 'ok' });
    expect(latency?.windows['1h']).toEqual({ good: 3, bad: 0, burnRate: 0 });
    const { totals } = await admin.stats();
    expect(totals.filter(row => row.name === name)).toEqual([
      { name, queue: pay.contract.queue, counts: { done: 3, failed: 1, dead: 1 } },
    ]);
    const env = { OUTLAST_DATABASE_URL: database.url };
    const project = new CliProject(
      {},
      store === 'Redis' ? { ...env, OUTLAST_BROKER_URL: redis.url } : env,
    );
    onTestFinished(() => project.dispose());
    const { stdout } = await project.run('doctor');
    const target = store === 'Redis' ? 'ledger' : 'database';
    const lines = stdout.split('\n');
    expect(lines).toContainEqual(
      expect.stringMatching(new RegExp(`^advice +${target} objectives: .*success of ${name}`)),
    );
    expect(lines).toContainEqual(expect.stringMatching(new RegExp(`^ok +${target} clock: `)));
  });
});

/** Six hours by the minute and the rest of three days by the hour, with some of the hours before. Counted by hand below. */
function threeDays(
  nowMs: number,
): readonly (readonly [startMs: number, done: number, dead: number])[] {
  const minute = nowMs - (nowMs % MINUTE);
  const hour = nowMs - (nowMs % HOUR);
  return [
    ...Array.from({ length: 360 }, (_, at) => [minute - at * MINUTE, 9, 1] as const),
    ...Array.from({ length: 64 }, (_, at) => [hour - (at + 8) * HOUR, 999, 1] as const),
    ...Array.from({ length: 2 }, (_, at) => [hour - (at + 72) * HOUR, 0, 5_000] as const),
  ];
}

/** 360 minutes with 1 of 10, and 64 hours with 1 of 1000: 424 of 67,600. */
function expectThreeDays(
  counts: Awaited<ReturnType<LedgerReads['objectives']>>,
  nowMs: number,
): void {
  const { windows } = burnReport({ ...counts, nowMs }).objectives[0] ?? {};
  expect(windows).toMatchObject({
    '5m': { good: 45, bad: 5 },
    '30m': { good: 270, bad: 30 },
    '1h': { good: 540, bad: 60 },
    '6h': { good: 3_240, bad: 360 },
    '3d': { good: 67_176, bad: 424 },
  });
  expect(windows?.['6h'].burnRate).toBeCloseTo(100, 6);
  expect(windows?.['3d'].burnRate).toBeCloseTo(6.272189, 6);
}

/** Counts what is asked of a store. */
function counting<T extends object>(target: T, names: readonly string[]): [T, () => number] {
  let count = 0;
  const counted = new Proxy(target, {
    get: (of, key) => {
      const value: unknown = Reflect.get(of, key, of);
      if (typeof value !== 'function') return value;
      return (...args: readonly unknown[]): unknown => {
        if (names.includes(String(key))) count += 1;
        return Reflect.apply(value, of, args) as unknown;
      };
    },
  });
  return [counted, () => count];
}

describe('three days of buckets', () => {
  it('are read from PostgreSQL in one round trip', async () => {
    const own = await migratedDatabase('slo_days');
    onTestFinished(() => own.dispose());
    const db = await PgDatabase.open({ url: own.url, poolSize: 1, queryTimeoutMs: 60_000 });
    onTestFinished(() => db.close());
    const nowMs = Date.now();
    await db.query(`insert into outlast_objective values ('pay', 0.999, null, null)`);
    const rows = threeDays(nowMs).flatMap(([at, done, dead]) => [
      { at, figure: 'done', count: done },
      { at, figure: 'dead', count: dead },
    ]);
    await db.query(
      `insert into outlast_tally_sum select 'pay', 'q', f, to_timestamp(a / 1000.0), c
       from unnest($1::float8[], $2::text[], $3::bigint[]) as r(a, f, c)`,
      [rows.map(row => row.at), rows.map(row => row.figure), rows.map(row => row.count)],
    );
    const [counted, calls] = counting(db, ['query', 'transaction']);
    expectThreeDays(await new PostgresLedgerReads(counted).objectives(), nowMs);
    expect(calls()).toBe(1);
  });

  it('are read from Redis in one round trip', async () => {
    const { ledger, connection, root } = await openTestLedger(redis.url);
    onTestFinished(() => ledger.close());
    const nowMs = Date.now();
    await connection.command('hset', `${root}objectives`, 'pay', '0.999 - -');
    for (const [at, done, dead] of threeDays(nowMs))
      await connection.command('hset', `${root}slo:pay`, `done:${at}`, done, `dead:${at}`, dead);
    const [counted, calls] = counting(connection, ['command', 'script']);
    const reads = new RedisLedgerReads(counted, async () => [root], ledger.chords);
    expectThreeDays(await reads.objectives(), nowMs);
    expect(calls()).toBe(1);
  });
});

import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { isAlive } from '../../src/idempotency/idempotency-store.ts';
import { describeLedgerProperty } from '../property/ledger-property.ts';
import { openTestAdmission } from '../support/redis-admission.ts';
import { startRedisCluster, type OwnCluster } from '../support/redis-cluster.ts';
import {
  openTestClusterLedger,
  openTestKeys,
  type TestClusterLedger,
} from '../support/redis-ledger.ts';
import { onlyFirstOfEach } from '../support/selection.ts';
import { describeIdempotencyProperty } from '../property/idempotency-property.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeAdmission } from './admission.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeTallies } from './ledger-tallies.ts';
import { describeLedger } from './ledger.ts';
import { makeEnvelope, unique } from './envelopes.ts';
import { LedgerDriver } from './ledger-driver.ts';
import { describeResultStore } from './result-store.ts';

// One queue is one slot, and its scripts are those of a single server. These suites use several slots.
onlyFirstOfEach({
  whole: [
    'ledger reads',
    'admission store',
    'a chord',
    'follow-ups of a commit',
    'condemn',
    'reap',
  ],
});

let cluster: OwnCluster;

beforeAll(async () => {
  cluster = await startRedisCluster();
});

afterAll(async () => {
  await cluster.dispose();
});

const fixture = () =>
  openTestClusterLedger(
    cluster.url,
    cluster.nodes.map(({ url }) => url),
  );

/** Two processes on one ledger. */
async function twoViews(): Promise<readonly [TestClusterLedger, TestClusterLedger]> {
  const nodes = cluster.nodes.map(({ url }) => url);
  const prefix = `${unique('ledger')}:`;
  const one = await openTestClusterLedger(cluster.url, nodes, prefix);
  const other = await openTestClusterLedger(cluster.url, nodes, prefix);
  onTestFinished(async () => {
    await one.dispose();
    await other.dispose();
  });
  return [one, other];
}

it('keeps the reservation of a run in a queue that another process does not know yet', async () => {
  const [one, other] = await twoViews();
  const nodes = cluster.nodes.map(({ url }) => url);
  const [prefix, key] = [`${unique('admission')}:`, unique('key')];
  const here = await openTestAdmission(one, nodes, prefix);
  const there = await openTestAdmission(other, nodes, prefix);
  // It caches the list of queues for a while.
  await other.parts.roots();
  const { task } = await new LedgerDriver(one).running(makeEnvelope({ queue: unique('new') }));
  await here.store.reserve({ key, limit: 1, holders: [{ task: task.id, run: task.run }] });
  expect(await there.store.sweep(key, 100)).toEqual({ freed: 0, wake: [] });
});

it('takes the holder of a key for alive in a queue that another process does not know yet', async () => {
  const [one, other] = await twoViews();
  await other.parts.roots();
  const { task } = await new LedgerDriver(one).running(makeEnvelope({ queue: unique('new') }));
  const holder = { taskId: task.id, epoch: task.epoch, heldMs: 0 };
  expect(await isAlive(holder, other.reads)).toBe(true);
  // A task that is still unknown after a while has ended and was forgotten.
  expect(await isAlive({ ...holder, taskId: 'unknown', heldMs: 60_000 }, other.reads)).toBe(false);
});

it('registers its queues again when the node that lists them has lost its data', async () => {
  const [one, other] = await twoViews();
  const driver = new LedgerDriver(one);
  const queue = unique('queue');
  await driver.running(makeEnvelope({ queue }));
  const kept = await one.connection.command('del', `${one.parts.homeRoot}queues`);
  expect(kept).toBe(1);
  const { task } = await driver.running(makeEnvelope({ queue }));
  expect(await other.reads.inspect(task.id)).toMatchObject({ state: 'running' });
});

describeLedger('Redis Cluster', fixture);
describeAdmission('Redis Cluster', async () =>
  openTestAdmission(
    await fixture(),
    cluster.nodes.map(({ url }) => url),
  ),
);
describeResultStore('Redis Cluster', fixture);
describeLedgerReads('Redis Cluster', fixture);
describeTallies('Redis Cluster', fixture);
describeLedgerProperty('Redis Cluster', fixture, { numRuns: 15, maxCommands: 25 });

const keys = () =>
  openTestKeys(
    cluster.url,
    cluster.nodes.map(({ url }) => url),
  );
describeIdempotency('Redis Cluster', keys);
describeIdempotencyProperty('Redis Cluster', keys, { numRuns: 15, maxCommands: 25 });

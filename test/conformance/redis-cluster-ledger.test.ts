import { afterAll, beforeAll } from 'vitest';
import { describeLedgerProperty } from '../property/ledger-property.ts';
import { openTestAdmission } from '../support/redis-admission.ts';
import { startRedisCluster, type OwnCluster } from '../support/redis-cluster.ts';
import { openTestClusterLedger, openTestKeys } from '../support/redis-ledger.ts';
import { describeIdempotencyProperty } from '../property/idempotency-property.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeAdmission } from './admission.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeLedger } from './ledger.ts';
import { describeResultStore } from './result-store.ts';

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

describeLedger('Redis Cluster', fixture);
describeAdmission('Redis Cluster', async () =>
  openTestAdmission(
    await fixture(),
    cluster.nodes.map(({ url }) => url),
  ),
);
describeResultStore('Redis Cluster', fixture);
describeLedgerReads('Redis Cluster', fixture);
describeLedgerProperty('Redis Cluster', fixture, { numRuns: 15, maxCommands: 25 });

const keys = () =>
  openTestKeys(
    cluster.url,
    cluster.nodes.map(({ url }) => url),
  );
describeIdempotency('Redis Cluster', keys);
describeIdempotencyProperty('Redis Cluster', keys, { numRuns: 15, maxCommands: 25 });

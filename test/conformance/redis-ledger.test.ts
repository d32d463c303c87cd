import { describeLedgerProperty } from '../property/ledger-property.ts';
import { openTestKeys, openTestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';
import { describeIdempotencyProperty } from '../property/idempotency-property.ts';
import { describeIdempotency } from './idempotency.ts';
import { HOUR } from './envelopes.ts';
import { openTestAdmission } from '../support/redis-admission.ts';
import { describeAdmission } from './admission.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeTallies } from './ledger-tallies.ts';
import { describeFollowing, describeLedger } from './ledger.ts';
import { describeResultStore } from './result-store.ts';

const fixture = () => openTestLedger(redisUrl());

describeLedger('Redis', fixture);
describeFollowing('Redis that Celery uses too', () =>
  openTestLedger(redisUrl(), { celeryResultMs: 12 * HOUR }),
);
describeAdmission('Redis', async () => openTestAdmission(await fixture(), [redisUrl()]));
describeResultStore('Redis', fixture);
describeLedgerReads('Redis', fixture);
describeTallies('Redis', fixture);
describeLedgerProperty('Redis', fixture, { numRuns: 100, maxCommands: 40 });

const keys = () => openTestKeys(redisUrl());
describeIdempotency('Redis', keys);
describeIdempotencyProperty('Redis', keys, { numRuns: 60, maxCommands: 25 });

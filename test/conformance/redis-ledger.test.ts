import { describeLedgerProperty } from '../property/ledger-property.ts';
import { openTestAdmission } from '../support/redis-admission.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';
import { describeAdmission } from './admission.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeLedger } from './ledger.ts';
import { describeResultStore } from './result-store.ts';

const fixture = () => openTestLedger(redisUrl());

describeLedger('Redis', fixture);
describeAdmission('Redis', async () => openTestAdmission(await fixture(), [redisUrl()]));
describeResultStore('Redis', fixture);
describeLedgerReads('Redis', fixture);
describeLedgerProperty('Redis', fixture, { numRuns: 100, maxCommands: 40 });

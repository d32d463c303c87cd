import { afterAll, beforeAll } from 'vitest';
import { type PGliteDatabase } from '../../src/adapters/pglite/pglite-database.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { onlyFirstOfEach } from '../support/selection.ts';
import { describeLedgerProperty } from '../property/ledger-property.ts';
import { describeAdmission } from './admission.ts';
import { describeLedgerBroker } from './broker.ts';
import { describeEffectDoor } from './effect-door.ts';
import { describeIdempotencyProperty } from '../property/idempotency-property.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeLedger } from './ledger.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeTallies } from './ledger-tallies.ts';
import { describeOutboxOrdering } from './outbox-ordering.ts';
import { describeOutboxReads } from './outbox-reads.ts';
import { describeOutboxReceipts } from './outbox-receipts.ts';
import { PostgresScheduleStore } from '../../src/adapters/postgres/postgres-schedule-store.ts';
import { describeScheduleStore } from './schedule-store.ts';
import { describeOutboxStore } from './outbox-store.ts';
import { describeResultStore } from './result-store.ts';
import { describeStraightSend } from './straight-send.ts';
import { sqlFixtures } from './sql-fixtures.ts';
import { openEmbeddedDatabase } from '../support/embedded.ts';

// The statements are those of PostgreSQL, and so is the engine.
onlyFirstOfEach();

let db: PGliteDatabase;

beforeAll(async () => {
  db = await openEmbeddedDatabase();
  await migrate(db);
});

afterAll(() => db.close());

const fixtures = sqlFixtures(() => db);

describeLedger('PGlite', () => fixtures.outbox(true));
describeOutboxStore('PGlite, separate broker', () => fixtures.outbox(false));
describeOutboxStore('PGlite, single database', () => fixtures.outbox(true));
describeOutboxReceipts('PGlite, separate broker', () => fixtures.outbox(false));
describeOutboxOrdering('PGlite, separate broker', () => fixtures.outbox(false));
describeOutboxOrdering('PGlite, single database', () => fixtures.outbox(true));
describeStraightSend('PGlite', () => fixtures.straight());
describeOutboxReads('PGlite', () => fixtures.outboxReads());
describeLedgerReads('PGlite', () => fixtures.ledger());
describeTallies('PGlite', () => fixtures.ledger());
describeAdmission('PGlite', () => fixtures.admission());
describeResultStore('PGlite', () => fixtures.outbox(true));
describeLedgerBroker('PGlite', () => fixtures.ledgerBroker());
describeEffectDoor('PGlite', () => fixtures.door(false));
describeLedgerProperty('PGlite', () => fixtures.outbox(true), { numRuns: 15, maxCommands: 25 });
describeIdempotency('PGlite', () => fixtures.keys());
describeIdempotencyProperty('PGlite', () => fixtures.keys(), { numRuns: 15, maxCommands: 25 });
describeScheduleStore('PGlite', () => ({
  store: new PostgresScheduleStore(db, 'outbox'),
  rows: async id =>
    (await db.query('select 1 from outlast_outbox where task_id = $1', [id])).length,
}));

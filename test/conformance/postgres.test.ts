import { afterAll, beforeAll } from 'vitest';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresCheckpointStore } from '../../src/adapters/postgres/postgres-checkpoint-store.ts';
import { PostgresControlStore } from '../../src/adapters/postgres/postgres-control-store.ts';
import { PostgresGenerationStore } from '../../src/adapters/postgres/postgres-generation-store.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import { withDatabase, type TestDatabase } from '../support/servers.ts';
import { describeLedgerProperty } from '../property/ledger-property.ts';
import { describeAdmission } from './admission.ts';
import { describeBroker, describeLedgerBroker } from './broker.ts';
import { describeCheckpointStore } from './checkpoint-store.ts';
import { describeControlStore } from './control-store.ts';
import { describeEffectDoor } from './effect-door.ts';
import { describeGenerationStore } from './generation-store.ts';
import { describeIdempotencyProperty } from '../property/idempotency-property.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeLedger } from './ledger.ts';
import { ledgerAsBroker } from './ledger-as-broker.ts';
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

let server: TestDatabase;
let db: PgDatabase;

beforeAll(async () => {
  server = await withDatabase('conformance');
  db = await PgDatabase.open({ url: server.url, poolSize: 5, queryTimeoutMs: 30_000 });
  await migrate(db);
});

afterAll(async () => {
  await db.close();
  await server.drop();
});

const fixtures = sqlFixtures(() => db);

describeLedger('PostgreSQL', () => fixtures.outbox(true));
describeOutboxStore('PostgreSQL, separate broker', () => fixtures.outbox(false));
describeOutboxStore('PostgreSQL, single database', () => fixtures.outbox(true));
describeOutboxReceipts('PostgreSQL, separate broker', () => fixtures.outbox(false));
describeOutboxOrdering('PostgreSQL, separate broker', () => fixtures.outbox(false));
describeOutboxOrdering('PostgreSQL, single database', () => fixtures.outbox(true));
describeStraightSend('PostgreSQL', () => fixtures.straight());
describeOutboxReads('PostgreSQL', () => fixtures.outboxReads());
describeLedgerReads('PostgreSQL', () => fixtures.ledger());
describeTallies('PostgreSQL', () => fixtures.ledger());
describeAdmission('PostgreSQL', () => fixtures.admission());
describeResultStore('PostgreSQL', () => fixtures.outbox(true));
describeLedgerBroker('PostgreSQL', () => fixtures.ledgerBroker());
describeBroker('PostgreSQL, through its ledger', () =>
  ledgerAsBroker(() => fixtures.ledgerBroker()),
);
describeEffectDoor('PostgreSQL', () => fixtures.door(true));
describeLedgerProperty('PostgreSQL', () => fixtures.outbox(true), { numRuns: 25, maxCommands: 25 });
describeControlStore('PostgreSQL', () => ({
  control: new PostgresControlStore(db),
  open: report => new PostgresLedger(db).open(report),
  advance: async ms =>
    void (await db.query(
      `update outlast_worker set deadline = deadline - $1::int * interval '1 millisecond'`,
      [ms],
    )),
}));
describeCheckpointStore('PostgreSQL', () => new PostgresCheckpointStore(db));
describeGenerationStore('PostgreSQL', () => new PostgresGenerationStore(db));
describeIdempotency('PostgreSQL', () => fixtures.keys());
describeIdempotencyProperty('PostgreSQL', () => fixtures.keys(), { numRuns: 25, maxCommands: 25 });
describeScheduleStore('PostgreSQL', () => ({
  store: new PostgresScheduleStore(db, 'outbox'),
  rows: async id =>
    Number(
      (await db.query('select count(*) as n from outlast_outbox where task_id = $1', [id]))[0]?.[
        'n'
      ],
    ),
}));

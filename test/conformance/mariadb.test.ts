import { afterAll, beforeAll } from 'vitest';
import { migrate } from '../../src/adapters/mysql/migrate.ts';
import { MysqlCheckpointStore } from '../../src/adapters/mysql/mysql-checkpoint-store.ts';
import { MysqlDatabase } from '../../src/adapters/mysql/mysql-database.ts';
import { MysqlGenerationStore } from '../../src/adapters/mysql/mysql-generation-store.ts';
import { withMariadb, type TestDatabase } from '../support/servers.ts';
import { describeCheckpointStore } from './checkpoint-store.ts';
import { describeGenerationStore } from './generation-store.ts';
import { mysqlOutbox } from './mysql-fixtures.ts';
import { describeOutboxOrdering } from './outbox-ordering.ts';
import { describeOutboxReads } from './outbox-reads.ts';
import { describeOutboxReceipts } from './outbox-receipts.ts';
import { MysqlScheduleStore } from '../../src/adapters/mysql/mysql-schedule-store.ts';
import { describeScheduleStore } from './schedule-store.ts';
import { describeOutboxStore } from './outbox-store.ts';

let server: TestDatabase;
let db: MysqlDatabase;

beforeAll(async () => {
  server = await withMariadb('conformance');
  db = await MysqlDatabase.open({ url: server.url, poolSize: 5, queryTimeoutMs: 30_000 });
  await migrate(db);
});

afterAll(async () => {
  await db.close();
  await server.drop();
});

describeOutboxStore('MariaDB', () => mysqlOutbox(db));
describeOutboxReceipts('MariaDB', () => mysqlOutbox(db));
describeOutboxOrdering('MariaDB', () => mysqlOutbox(db));
describeOutboxReads('MariaDB', () => mysqlOutbox(db));
describeCheckpointStore('MariaDB', () => new MysqlCheckpointStore(db));
describeGenerationStore('MariaDB', () => new MysqlGenerationStore(db));
describeScheduleStore('MariaDB', () => ({
  store: new MysqlScheduleStore(db),
  rows: async id =>
    (await db.query('select id from outlast_outbox where task_id = ?', [id])).length,
}));

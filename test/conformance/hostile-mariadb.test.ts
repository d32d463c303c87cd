import { createConnection, createPool, type Pool } from 'mysql2/promise';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { migrate } from '../../src/adapters/mysql/migrate.ts';
import { MysqlCheckpointStore } from '../../src/adapters/mysql/mysql-checkpoint-store.ts';
import { MysqlDatabase } from '../../src/adapters/mysql/mysql-database.ts';
import { MysqlFenceRows } from '../../src/adapters/mysql/mysql-fence-rows.ts';
import { MysqlFences } from '../../src/adapters/mysql/mysql-fences.ts';
import { MysqlGenerationStore } from '../../src/adapters/mysql/mysql-generation-store.ts';
import { fromMysql2 } from '../../src/adapters/transactions/mysql2.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { makeLedger } from '../support/memory-ledger.ts';
import { DRIVERS, type Driver } from '../support/mysql-drivers.ts';
import { mariadbUrl, withMariadb, type TestDatabase } from '../support/servers.ts';
import { describeCheckpointStore } from './checkpoint-store.ts';
import { describeGenerationStore } from './generation-store.ts';
import { mysqlOutbox } from './mysql-fixtures.ts';
import { describeOutboxOrdering } from './outbox-ordering.ts';
import { describeOutboxReads } from './outbox-reads.ts';
import { describeOutboxReceipts } from './outbox-receipts.ts';
import { describeOutboxStore } from './outbox-store.ts';
import { describeDoors, EFFECT } from './separate-parts.ts';

/** Settings that a server applies to every session of a user without admin rights; other tests connect as root. */
const HOSTILE = [
  `set sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,EMPTY_STRING_IS_NULL'`,
  `set time_zone = '+05:45'`,
  `set tx_isolation = 'SERIALIZABLE'`,
  `set names latin1 collate latin1_german1_ci`,
  `set div_precision_increment = 0`,
  `set group_concat_max_len = 4`,
  `set innodb_lock_wait_timeout = 1`,
  `set lc_time_names = 'de_DE'`,
  `set sql_auto_is_null = 1`,
  `set sql_safe_updates = 1`,
  `set sql_select_limit = 3`,
  `set autocommit = 0`,
].join('; ');

let server: TestDatabase;
let user: string;
let db: MysqlDatabase;
let pool: Pool;
const drivers: Driver[] = [];

async function asRoot(...statements: string[]): Promise<void> {
  const root = await createConnection(mariadbUrl());
  for (const statement of statements) await root.query(statement);
  await root.end();
}

beforeAll(async () => {
  server = await withMariadb('hostile');
  const url = new URL(server.url);
  const name = url.pathname.slice(1);
  user = `u${name.slice(-30)}`;
  await asRoot(
    `create user ${user}@'%'`,
    `grant all on ${name}.* to ${user}@'%'`,
    `alter database ${name} character set latin1 collate latin1_german1_ci`,
    `set global init_connect = "${HOSTILE}"`,
  );
  url.username = user;
  db = await MysqlDatabase.open({ url: url.href, poolSize: 5, queryTimeoutMs: 30_000 });
  await migrate(db);
  await db.query(EFFECT);
  // As an application connects: the driver asks for a character set, and the server overrides it.
  pool = createPool(url.href);
});

afterAll(async () => {
  for (const driver of drivers) await driver.close();
  await db.close();
  await pool.end();
  await asRoot(`set global init_connect = ''`, `drop user ${user}@'%'`);
  await server.drop();
});

it('our own sessions have none of them', async () => {
  const [row] =
    await db.query(`select @@sql_mode as mode, @@time_zone as zone, @@tx_isolation as isolation,
    @@character_set_client as client, @@character_set_results as results, @@collation_connection as collation,
    @@innodb_lock_wait_timeout as lock_wait, concat_ws(' ', @@sql_auto_is_null, @@sql_safe_updates, @@autocommit) as switches,
    @@sql_select_limit > 1000000 as has_all_rows`);
  expect({ ...row, mode: String(row?.['mode']).split(',').toSorted() }).toEqual({
    mode: ['NO_ENGINE_SUBSTITUTION', 'STRICT_ALL_TABLES'],
    zone: '+00:00',
    isolation: 'READ-COMMITTED',
    client: 'utf8mb4',
    results: 'utf8mb4',
    collation: 'utf8mb4_bin',
    lock_wait: '10',
    switches: 'OFF OFF ON',
    has_all_rows: 1,
  });
});

it('a task sent through a library under these settings arrives byte for byte', async () => {
  const [[setting]] = (await pool.query(
    'select @@sql_mode as mode, @@sql_select_limit as few',
  )) as [Record<string, unknown>[], unknown];
  expect(setting).toMatchObject({ mode: expect.stringContaining('ANSI_QUOTES') as string, few: 3 });
  const anything = task('hostile.anything', { input: unchecked<unknown>() });
  const input = { text: `\\x41 \\' \u0000 ' " žluť 😀 ` };
  const outlast = createOutlast({
    database: 'postgres://nobody@127.0.0.1:1/none',
    outboxes: { crm: { database: server.url.replace('root', user) } },
    outbox: 'crm',
    adapter: fromMysql2(pool),
  });
  const calls = Array.from({ length: 8 }, (_, n) =>
    anything.with(input, {
      id: `hostile-${n}`,
      orderingKey: `order \\' ${n} `,
      idempotencyKey: `key \\' ${n} `,
    }),
  );
  const send = () => outlast.transaction(async tx => await outlast.sendMany(tx, calls));
  expect((await send()).map(({ isNew }) => isNew)).toEqual(calls.map(() => true));
  expect((await send()).map(({ isNew }) => isNew)).toEqual(calls.map(() => false));
  const unkeyed = calls.map(({ options }) => anything.with(input, { id: options?.id as string }));
  const again = await outlast.transaction(async tx => await outlast.sendMany(tx, unkeyed));
  expect(again.map(({ isNew }) => isNew)).toEqual(calls.map(() => false));
  await outlast.close();
  const { store } = await mysqlOutbox(db);
  await store.beat('hostile', 60_000);
  const rows = await store.claim({ relay: 'hostile', token: 't', limit: 10, staleMs: 60_000 });
  expect(rows).toHaveLength(8);
  for (const { envelope } of rows)
    expect(JSON.parse(Buffer.from(envelope.body).toString())).toMatchObject([[], input, {}]);
  await store.settlePublished(
    't',
    rows.map(({ row }) => row),
  );
});

const NAME = 'MariaDB with hostile settings';

describeOutboxStore(NAME, () => mysqlOutbox(db));
describeOutboxReceipts(NAME, () => mysqlOutbox(db));
describeOutboxOrdering(NAME, () => mysqlOutbox(db));
describeOutboxReads(NAME, () => mysqlOutbox(db));
describeGenerationStore(NAME, () => new MysqlGenerationStore(db));
describeCheckpointStore(NAME, () => new MysqlCheckpointStore(db));
for (const [name, open] of Object.entries(DRIVERS))
  describeDoors(`${NAME}, ${name}`, async () => {
    const driver = open(server.url.replace('root', user));
    drivers.push(driver);
    return {
      adapter: driver.adapter,
      fences: new MysqlFences(driver.adapter),
      rows: new MysqlFenceRows(db),
      ledger: await makeLedger(),
      ask: sql => db.query(sql),
      conflict: { errno: 1213 },
    };
  });

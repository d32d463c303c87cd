import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresCheckpointStore } from '../../src/adapters/postgres/postgres-checkpoint-store.ts';
import { PostgresFenceRows } from '../../src/adapters/postgres/postgres-fence-rows.ts';
import { PostgresFences } from '../../src/adapters/postgres/postgres-fences.ts';
import { PostgresGenerationStore } from '../../src/adapters/postgres/postgres-generation-store.ts';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import { PostgresScheduleStore } from '../../src/adapters/postgres/postgres-schedule-store.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { task, type SendOptions } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { makeLedger } from '../support/memory-ledger.ts';
import { startPgbouncer, type OwnPgbouncer } from '../support/pgbouncer.ts';
import { withDatabase, type TestDatabase } from '../support/servers.ts';
import { describeAdmission } from './admission.ts';
import { describeCheckpointStore } from './checkpoint-store.ts';
import { describeEffectDoor } from './effect-door.ts';
import { describeGenerationStore } from './generation-store.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeLedger } from './ledger.ts';
import { LedgerDriver } from './ledger-driver.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeTallies } from './ledger-tallies.ts';
import { describeOutboxOrdering } from './outbox-ordering.ts';
import { describeOutboxReads } from './outbox-reads.ts';
import { describeOutboxReceipts } from './outbox-receipts.ts';
import { describeOutboxStore } from './outbox-store.ts';
import { describeResultStore } from './result-store.ts';
import { describeScheduleStore } from './schedule-store.ts';
import { describeDoors, EFFECT } from './separate-parts.ts';
import { sqlFixtures } from './sql-fixtures.ts';
import { describeStraightSend } from './straight-send.ts';

/**
 * Settings that an operator may choose for a database or role and that change how values are written, read, compared or
 * planned. A pooler in transaction mode stands in front, so that none of the settings we request reaches a session.
 */
const HOSTILE: Readonly<Record<string, string>> = {
  bytea_output: 'escape',
  datestyle: `'German, DMY'`,
  default_transaction_deferrable: 'on',
  default_transaction_isolation: 'serializable',
  enable_hashjoin: 'off',
  enable_indexscan: 'off',
  escape_string_warning: 'off',
  extra_float_digits: '-15',
  intervalstyle: 'sql_standard',
  join_collapse_limit: '1',
  quote_all_identifiers: 'on',
  row_security: 'off',
  search_path: `'Another schema', public, pg_catalog`,
  standard_conforming_strings: 'off',
  timezone: `'Asia/Kathmandu'`,
  transform_null_equals: 'on',
};

let server: TestDatabase;
let pooler: OwnPgbouncer;
let db: PgDatabase;
let pool: Pool;

beforeAll(async () => {
  server = await withDatabase('hostile');
  const name = new URL(server.url).pathname.slice(1);
  const admin = new Pool({ connectionString: server.url, max: 1 });
  await admin.query('create schema "Another schema"');
  for (const [setting, value] of Object.entries(HOSTILE))
    await admin.query(`alter database "${name}" set ${setting} = ${value}`);
  await admin.end();
  pooler = await startPgbouncer(server.url, 5);
  db = await PgDatabase.open({ url: pooler.url, poolSize: 5, queryTimeoutMs: 30_000 });
  await migrate(db);
  await db.query(EFFECT);
  pool = new Pool({ connectionString: pooler.url });
});

afterAll(async () => {
  await db.close();
  await pool.end();
  await pooler.dispose();
  await server.drop();
});

const fixtures = sqlFixtures(() => db);

it('our own sessions have the hostile settings too', async () => {
  const names = Object.keys(HOSTILE).filter(name => !['datestyle', 'search_path'].includes(name));
  const rows = await db.query(
    'select name, current_setting(name) as value from unnest($1::text[]) as n(name)',
    [names],
  );
  const found = new Map(rows.map(row => [row['name'], row['value']]));
  const wanted = names.map(name => [name, HOSTILE[name]?.replaceAll(`'`, '')] as const);
  expect(found).toEqual(new Map(wanted));
});

describe('a task sent through a library under these settings', () => {
  const anything = task('hostile.anything', { input: unchecked<unknown>() });
  const INPUT = { text: `\\x41 \\101 \u0000 ' " žluť 😀`, nested: [null, 1.5, '\\'] };
  const OPTIONS: Readonly<Record<string, SendOptions>> = {
    plain: {},
    'with a key': { idempotencyKey: String.raw`k\x41'` },
    'with an order': { orderingKey: String.raw`o\101"` },
    'with times': { eta: new Date('2020-02-03T04:05:06.789Z'), expires: '1d' },
  };

  const another = ({ idempotencyKey: key, ...rest }: SendOptions, nth: string): SendOptions =>
    key === undefined ? rest : { ...rest, idempotencyKey: key + nth };

  const sendAll = async (options: SendOptions, broker: object): Promise<string[]> => {
    const outlast = createOutlast({ database: pooler.url, adapter: fromPg(pool), ...broker });
    const ids = await outlast.transaction(async tx => {
      const alone = await outlast.send(tx, anything, INPUT, options);
      const many = await outlast.sendMany(tx, [
        anything.with(INPUT, another(options, '1')),
        anything.with(INPUT, another(options, '2')),
      ]);
      return [alone, ...many].map(({ id }) => id);
    });
    await outlast.close();
    return ids;
  };

  const isSame = ({ body, etaMs }: Partial<Envelope>, { eta }: SendOptions): void => {
    expect(JSON.parse(Buffer.from(body ?? []).toString())).toMatchObject([[], INPUT, {}]);
    expect(etaMs ?? null).toBe(eta?.getTime() ?? null);
  };

  const straight = Object.entries(OPTIONS).filter(
    ([, { orderingKey }]) => orderingKey === undefined,
  );

  it.each(straight)('arrives byte for byte in the ledger: %s', async (name, options) => {
    const queue = `hostile-${name.replaceAll(' ', '-')}`;
    const ids = await sendAll({ ...options, queue }, {});
    const driver = new LedgerDriver(await fixtures.straight());
    const { worker } = await driver.open();
    const { begun } = await driver.begin(worker, { queues: [queue], limit: 10 });
    expect(begun.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    for (const { envelope } of begun) isSame(envelope, options);
  });

  it.each(Object.entries(OPTIONS))(
    'arrives byte for byte in the outbox: %s',
    async (name, options) => {
      const key = options.idempotencyKey === undefined ? {} : { idempotencyKey: `${name} again` };
      const ids = await sendAll({ ...options, ...key }, { broker: 'amqp://127.0.0.1:1' });
      const store = new PostgresOutboxStore(db, { movesIntoLedger: false });
      await store.beat('hostile', 60_000);
      const found: string[] = [];
      // Ordered tasks come one at a time.
      while (found.length < ids.length) {
        const token = `token-${found.length}`;
        const rows = await store.claim({ relay: 'hostile', token, limit: 10, staleMs: 60_000 });
        isSame(rows[0]?.envelope ?? {}, options);
        found.push(...rows.map(({ envelope }) => envelope.id));
        await store.settlePublished(
          token,
          rows.map(({ row }) => row),
        );
      }
      expect(new Set(found)).toEqual(new Set(ids));
    },
  );
});

const NAME = 'PostgreSQL with hostile settings';

describeLedger(NAME, () => fixtures.outbox(true));
describeStraightSend(NAME, () => fixtures.straight());
describeOutboxStore(NAME, () => fixtures.outbox(true));
describeOutboxReceipts(NAME, () => fixtures.outbox(false));
describeOutboxOrdering(NAME, () => fixtures.outbox(false));
describeOutboxReads(NAME, () => fixtures.outboxReads());
describeLedgerReads(NAME, () => fixtures.ledger());
describeTallies(NAME, () => fixtures.ledger());
describeAdmission(NAME, () => fixtures.admission());
describeResultStore(NAME, () => fixtures.outbox(true));
describeEffectDoor(NAME, () => fixtures.door(true));
describeCheckpointStore(NAME, () => new PostgresCheckpointStore(db));
describeGenerationStore(NAME, () => new PostgresGenerationStore(db));
describeIdempotency(NAME, () => fixtures.keys());
describeScheduleStore(NAME, () => ({
  store: new PostgresScheduleStore(db, 'ledger'),
  rows: async id => (await db.query('select 1 from outlast_task where id = $1', [id])).length,
}));
describeDoors(`${NAME}, fromPg`, async () => {
  const adapter = fromPg(pool);
  return {
    adapter,
    fences: new PostgresFences(adapter),
    rows: new PostgresFenceRows(db),
    ledger: await makeLedger(),
    ask: sql => db.query(sql),
    conflict: { code: '40001' },
  };
});

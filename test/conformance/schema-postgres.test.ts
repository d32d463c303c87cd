import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dialect } from '../../src/adapters/postgres/dialect.ts';
import { checkSchema, migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresCheckpointStore } from '../../src/adapters/postgres/postgres-checkpoint-store.ts';
import type { PostgresDatabase } from '../../src/adapters/postgres/postgres-database.ts';
import { PostgresFenceRows } from '../../src/adapters/postgres/postgres-fence-rows.ts';
import { PostgresFences } from '../../src/adapters/postgres/postgres-fences.ts';
import { PostgresGenerationStore } from '../../src/adapters/postgres/postgres-generation-store.ts';
import { SchemaNames } from '../../src/adapters/postgres/schema-names.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { migrateTarget, openDatabase } from '../../src/context/openers.ts';
import { task } from '../../src/task/define-task.ts';
import { CHECK_LIMITS } from '../../src/telemetry/checkup.ts';
import { makeLedger } from '../support/memory-ledger.ts';
import { onlyFirstOfEach } from '../support/selection.ts';
import { withDatabase, type TestDatabase } from '../support/servers.ts';
import { describeAdmission } from './admission.ts';
import { describeCheckpointStore } from './checkpoint-store.ts';
import { describeGenerationStore } from './generation-store.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeLedger } from './ledger.ts';
import { describeLedgerReads } from './ledger-reads.ts';
import { describeTallies } from './ledger-tallies.ts';
import { describeOutboxOrdering } from './outbox-ordering.ts';
import { describeOutboxReads } from './outbox-reads.ts';
import { describeOutboxReceipts } from './outbox-receipts.ts';
import { describeOutboxStore } from './outbox-store.ts';
import { describeResultStore } from './result-store.ts';
import { describeDoors, EFFECT } from './separate-parts.ts';
import { sqlFixtures } from './sql-fixtures.ts';

// The statements are those of PostgreSQL without a schema; these show that each finds its tables.
onlyFirstOfEach({ whole: ['a database whose tables are in a schema', 'the printed migrations'] });

/** A name that begins like ours, and that PostgreSQL takes only in quotes elsewhere. */
const SCHEMA = 'outlast_order';

let server: TestDatabase;
let connected: PgDatabase;
let db: PostgresDatabase;
let pool: Pool;

/** No session finds a table of ours by `search_path`: a name without its schema is an error. */
beforeAll(async () => {
  server = await withDatabase('schema');
  const admin = new Pool({ connectionString: server.url, max: 1 });
  await admin.query('create schema app');
  await admin.query(
    `alter database "${new URL(server.url).pathname.slice(1)}" set search_path = app`,
  );
  await admin.end();
  connected = await PgDatabase.open({ url: server.url, poolSize: 5, queryTimeoutMs: 30_000 });
  db = new SchemaNames(SCHEMA).database(connected);
  await migrate(db, { schema: SCHEMA });
  await connected.query(EFFECT);
  pool = new Pool({ connectionString: server.url });
});

afterAll(async () => {
  await connected.close();
  await pool.end();
  await server.drop();
});

const target = (): Parameters<typeof openDatabase>[0] => ({
  kind: 'postgres',
  url: server.url,
  schema: SCHEMA,
});

describe('a database whose tables are in a schema', () => {
  it('has nothing of ours elsewhere, and all of it there', async () => {
    const { rows } = await pool.query<{ schema: string }>(
      `select distinct n.nspname as schema from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relname like 'outlast\\_%'
       union select n.nspname from pg_proc p join pg_namespace n on n.oid = p.pronamespace where p.proname like 'outlast\\_%'`,
    );
    expect(rows).toEqual([{ schema: SCHEMA }]);
  });

  it('is whole to the doctor, who finds each table', async () => {
    const opened = await openDatabase(target(), { embedded: 'existing' });
    const checks = await opened.checkup.run(CHECK_LIMITS);
    await opened.close();
    expect(checks.filter(({ status }) => status === 'problem')).toEqual([]);
    const bloat = checks.find(({ name }) => name === 'bloat');
    expect(bloat?.details?.['tables']).toHaveLength(4);
  });

  it('is named in the hint of a process that does not look there', async () => {
    await expect(checkSchema(connected)).rejects.toMatchObject({
      code: 'ERR_SCHEMA_MISSING',
      hint: expect.stringContaining(`in schema ${SCHEMA}`) as unknown,
    });
  });

  it('is what every statement names', async () => {
    await connected.transaction(async tx => {
      for (const [name, text] of Object.entries(SQL)) {
        // A command without a plan names no table.
        if (!/^(select|insert|update|delete|with)\b/.test(text)) continue;
        const prepared = tx.query(`prepare ${name} as ${new SchemaNames(SCHEMA).text(text)}`);
        await expect(prepared, name).resolves.toEqual([]);
      }
    });
  });

  it('is where a library writes a task', async () => {
    await using outlast = createOutlast({
      database: server.url,
      schema: SCHEMA,
      adapter: fromPg(pool),
    });
    const { id } = await outlast.transaction(tx => outlast.send(tx, task('schema.any')));
    const rows = await db.query('select id from outlast_task where id = $1', [id]);
    expect(rows).toEqual([{ id }]);
  });

  it('leaves the statements of the user alone', async () => {
    await using outlast = createOutlast({ database: server.url, schema: SCHEMA });
    const rows = await outlast.transaction(tx => tx.query(`select 'outlast_task' as text`));
    expect(rows).toEqual([{ text: 'outlast_task' }]);
  });

  it('wakes its own relays and workers, not those of another schema', async () => {
    const other = new SchemaNames('app').database(connected);
    const heard: string[] = [];
    // The first hint of a listener says that it listens now.
    const listen = async (name: string, one: PostgresDatabase): Promise<void> => {
      let isListening = false;
      await new Promise<void>(resolve => {
        one.listen('outlast_outbox', () => {
          if (isListening) heard.push(name);
          isListening = true;
          resolve();
        });
      });
    };
    await listen('other', other);
    await listen('own', db);
    const woken = new Promise<void>(resolve => void db.listen('outlast_outbox', resolve));
    await db.query(`select pg_notify('outlast_outbox', '')`);
    await woken;
    await expect.poll(() => heard).toEqual(['own']);
  });
});

describe('the printed migrations', () => {
  it('make the same tables in the schema, and uninstalling drops them and the schema', async () => {
    const schema = 'printed';
    const own = dialect.inSchema?.(schema) ?? dialect;
    await pool.query(own.printMigrations().replace(/ index concurrently /g, ' index '));
    const opened = await own.open(
      { ...target(), schema },
      { embedded: 'existing', poolSize: 1, queryTimeoutMs: 30_000 },
    );
    await expect(opened.checkSchema()).resolves.toEqual(expect.any(Number));
    await opened.close();
    await pool.query(own.printUninstall());
    const { rows } = await pool.query('select 1 from pg_namespace where nspname = $1', [schema]);
    expect(rows).toEqual([]);
  });

  it('report tables in another schema before new ones are made', async () => {
    const lines: string[] = [];
    await migrateTarget(
      { ...target(), schema: 'second' },
      { onProgress: line => lines.push(line) },
    );
    expect(lines).toContainEqual(expect.stringContaining(`in schema ${SCHEMA}, too`));
  });
});

const NAME = 'PostgreSQL in a schema';
const fixtures = sqlFixtures(() => db);

describeLedger(NAME, () => fixtures.outbox(true));
describeOutboxStore(NAME, () => fixtures.outbox(true));
describeOutboxReceipts(NAME, () => fixtures.outbox(false));
describeOutboxOrdering(NAME, () => fixtures.outbox(false));
describeOutboxReads(NAME, () => fixtures.outboxReads());
describeLedgerReads(NAME, () => fixtures.ledger());
describeTallies(NAME, () => fixtures.ledger());
describeAdmission(NAME, () => fixtures.admission());
describeResultStore(NAME, () => fixtures.outbox(true));
describeCheckpointStore(NAME, () => new PostgresCheckpointStore(db));
describeGenerationStore(NAME, () => new PostgresGenerationStore(db));
describeIdempotency(NAME, () => fixtures.keys());
describeDoors(`${NAME}, fromPg`, async () => {
  const adapter = fromPg(pool);
  return {
    adapter,
    fences: new PostgresFences(new SchemaNames(SCHEMA).adapter(adapter)),
    rows: new PostgresFenceRows(db),
    ledger: await makeLedger(),
    ask: sql => db.query(sql),
    conflict: { code: '40001' },
  };
});

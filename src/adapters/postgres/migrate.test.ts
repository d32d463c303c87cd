import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { gate, until } from '../../../test/support/database.ts';
import { withDatabase } from '../../../test/support/servers.ts';
import { migrate, printMigrations, type MigrateDeps } from './migrate.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import { PgDatabase } from './pg-database.ts';
import { uninstall } from './uninstall.ts';
import { openEmbeddedDatabase } from '../../../test/support/embedded.ts';

const NEXT = MIGRATIONS.length + 1;

/** The released migrations and one more, of these statements. */
const withNext = (
  inTransaction: boolean,
  ...statements: string[]
): NonNullable<MigrateDeps['migrations']> => [
  ...MIGRATIONS,
  { version: NEXT, name: 'next', breaking: false, inTransaction, statements },
];

const ADD_COLUMN = 'alter table outlast_probe add column extra integer';
const ADD_INDEX = 'create index concurrently outlast_extra on outlast_probe (n)';
const GENEROUS = { timeoutMs: 100, attempts: 1_000, maxPauseMs: 100 };

interface Setup {
  readonly db: PgDatabase;
  readonly url: string;
  readonly connect: () => Promise<Client>;
}

async function setup(queryTimeoutMs = 30_000): Promise<Setup> {
  const database = await withDatabase('migrate');
  const { url } = database;
  const db = await PgDatabase.open({ url, poolSize: 3, queryTimeoutMs });
  const clients: Client[] = [];
  onTestFinished(async () => {
    for (const client of clients) await client.end();
    await db.close();
    await database.drop();
  });
  await migrate(db);
  await db.query('create table outlast_probe (id integer, n integer)');
  return {
    db,
    url,
    connect: async () => {
      const client = new Client({ connectionString: url });
      clients.push(client);
      await client.connect();
      return client;
    },
  };
}

/** A progress line of this kind has been reported so often. */
function reports(
  pattern: RegExp,
  times: number,
): { line: (text: string) => void; seen: Promise<void> } {
  const reached = gate();
  let count = 0;
  return {
    seen: reached.opened,
    line: text => {
      if (pattern.test(text) && ++count === times) reached.open();
    },
  };
}

const INSERT = 'insert into outlast_probe values (1, 1)';

describe('a migration on a database in use', () => {
  it('lets others go on between its attempts while an open transaction keeps a table', async () => {
    const { db, connect } = await setup();
    const [holder, sender] = [await connect(), await connect()];
    await holder.query(`begin; ${INSERT}`);
    const twice = reports(
      /^next: a table is in use by pid \d+ .*idle in transaction.*insert into/,
      2,
    );
    const migrating = migrate(db, {
      migrations: withNext(true, ADD_COLUMN),
      patience: GENEROUS,
      onProgress: twice.line,
    });
    await twice.seen;
    // Behind a change that waits without end this would wait for the holder.
    await sender.query(INSERT);
    await holder.query('commit');
    expect(await migrating).toEqual({ applied: ['next'], version: NEXT });
    expect(await db.query('select extra from outlast_probe limit 1')).toEqual([{ extra: null }]);
  });

  it('gives up after its attempts, says which session blocks it, and leaves everything as it was', async () => {
    const { db, connect } = await setup();
    const holder = await connect();
    await holder.query(`begin; ${INSERT}`);
    const [{ pid }] = (await holder.query('select pg_backend_pid() as pid')).rows as [
      { pid: number },
    ];
    const failing = migrate(db, {
      migrations: withNext(true, 'create table outlast_half (id integer)', ADD_COLUMN),
      patience: { timeoutMs: 1_000, attempts: 2, maxPauseMs: 10 },
    });
    await expect(failing).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      message: expect.stringMatching(
        new RegExp(
          String.raw`next found a table in use 2 times: by pid ${pid} .*select pg_backend_pid`,
        ),
      ) as string,
    });
    expect(await db.query(`select to_regclass('outlast_half')::text as found`)).toEqual([
      { found: null },
    ]);
    await holder.query('rollback');
    expect((await migrate(db, { migrations: withNext(true, ADD_COLUMN) })).applied).toEqual([
      'next',
    ]);
  });

  it('takes as long as it needs, whatever limits the server and our own connections have', async () => {
    const { db, url } = await setup();
    const name = new URL(url).pathname.slice(1);
    await db.query(`alter database "${name}" set statement_timeout = '500ms'`);
    const hasty = await PgDatabase.open({ url, poolSize: 2, queryTimeoutMs: 500 });
    onTestFinished(() => hasty.close());
    const shown = reports(/^next, statement 1 of 1 \(select pg_sleep\(2\)\), \d+ s/, 1);
    const migrations = withNext(true, 'select pg_sleep(2)');
    const { applied } = await migrate(hasty, { migrations, onProgress: shown.line });
    expect(applied).toEqual(['next']);
    await shown.seen;
  });

  it('waits for its turn without keeping an index from being built', async () => {
    const { db, connect } = await setup();
    const holder = await connect();
    await holder.query(`begin; ${INSERT}`);
    const migrations = withNext(false, ADD_INDEX);
    const building = reports(/^next, statement 1 of 1 .*waits for pid/, 1);
    const waiting = reports(/^waits for another process/, 1);
    const first = migrate(db, { migrations, onProgress: building.line });
    await building.seen;
    const second = migrate(db, { migrations, onProgress: waiting.line });
    await waiting.seen;
    await holder.query('commit');
    expect((await first).applied).toEqual(['next']);
    expect((await second).applied).toEqual([]);
  });

  it('gives up its turn when another process migrates for too long', async () => {
    const { db, connect } = await setup();
    const other = await connect();
    await other.query('begin; select pg_advisory_xact_lock(6885278)');
    await expect(migrate(db, { turnMs: 300 })).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      message: expect.stringContaining('another process') as string,
    });
  });
});

async function isValid(db: PgDatabase): Promise<unknown> {
  const rows = await db.query(
    `select indisvalid from pg_index where indexrelid = to_regclass('outlast_extra')`,
  );
  return rows[0]?.['indisvalid'];
}

describe('an index that is built concurrently', () => {
  it('lets writers go on while it waits for a transaction', async () => {
    const { db, connect } = await setup();
    const [holder, sender] = [await connect(), await connect()];
    await holder.query(`begin; ${INSERT}`);
    const waits = reports(/^next, statement 1 of 1 .*: waits for pid \d+/, 1);
    const migrations = withNext(false, ADD_INDEX);
    const migrating = migrate(db, { migrations, onProgress: waits.line });
    await waits.seen;
    await sender.query(INSERT);
    await holder.query('commit');
    expect((await migrating).applied).toEqual(['next']);
    expect(await isValid(db)).toBe(true);
  });

  it('is built anew where a process that was killed has left a half of it', async () => {
    const { db } = await setup();
    await db.query(`${INSERT}, (2, 1)`);
    await expect(db.query(ADD_INDEX.replace('index', 'unique index'))).rejects.toMatchObject({
      code: '23505',
    });
    expect(await isValid(db)).toBe(false);
    expect((await migrate(db, { migrations: withNext(false, ADD_INDEX) })).applied).toEqual([
      'next',
    ]);
    expect(await isValid(db)).toBe(true);
  });

  it('is kept where it was built and not logged, and dropped the same way', async () => {
    const { db } = await setup();
    await db.query(ADD_INDEX);
    const dropped = 'drop index concurrently if exists outlast_extra';
    await migrate(db, { migrations: withNext(false, ADD_INDEX) });
    expect(await isValid(db)).toBe(true);
    await db.query(`delete from outlast_migration where version = ${NEXT}`);
    await migrate(db, { migrations: withNext(false, dropped) });
    expect(await isValid(db)).toBeUndefined();
  });

  it('is awaited where the server still builds it for a client that was killed', async () => {
    const { db, connect } = await setup();
    const [holder, killed] = [await connect(), await connect()];
    await holder.query(`begin; ${INSERT}`);
    const left = killed.query(ADD_INDEX);
    await until(async () => (await db.query('select 1 from pg_stat_progress_create_index')).length);
    const awaited = reports(/^waits for pid \d+, which still builds outlast_extra/, 1);
    const migrations = withNext(false, ADD_INDEX);
    const migrating = migrate(db, { migrations, onProgress: awaited.line });
    await awaited.seen;
    await holder.query('commit');
    await left;
    expect((await migrating).applied).toEqual(['next']);
    expect(await isValid(db)).toBe(true);
  });

  it('is an ordinary one in an embedded database, and outside of a transaction where it is printed', async () => {
    const db = await openEmbeddedDatabase();
    onTestFinished(() => db.close());
    const index = 'create index concurrently outlast_extra on outlast_outbox (queue)';
    const { applied } = await migrate(db, { migrations: withNext(false, index) });
    expect(applied.at(-1)).toBe('next');
    const printed = printMigrations(undefined, withNext(false, index));
    expect(printed).toMatch(/\n\n-- next: outside of a transaction\ncreate index concurrently/);
  });
});

describe('a database of an older version', () => {
  it.each([1, 5])('of %i migrations is uninstalled, unless something is left in it', async last => {
    const database = await withDatabase('older');
    const db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
    onTestFinished(async () => {
      await db.close();
      await database.drop();
    });
    await migrate(db, { migrations: MIGRATIONS.slice(0, last) });
    await db.query(`insert into outlast_after (key, entry) values ('k', '')`);
    await expect(uninstall(db)).rejects.toMatchObject({
      code: 'ERR_TASKS_LEFT',
      left: { followUps: 1, schedules: 0 },
    });
    await db.query('delete from outlast_after');
    await uninstall(db);
    expect(
      await db.query(
        `select relname::text as name from pg_class where relname like 'outlast%'
         union all select proname::text from pg_proc where proname like 'outlast%'`,
      ),
    ).toEqual([]);
  });
});

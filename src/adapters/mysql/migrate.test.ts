import { describe, expect, it, onTestFinished } from 'vitest';
import { gate } from '../../../test/support/database.ts';
import { withMariadb } from '../../../test/support/servers.ts';
import { checkSchema, migrate } from './migrate.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import { MysqlDatabase } from './mysql-database.ts';

async function setup(): Promise<MysqlDatabase> {
  return (await setupAt()).db;
}

async function setupAt(): Promise<{ readonly db: MysqlDatabase; readonly url: string }> {
  const server = await withMariadb('migrate');
  const { url } = server;
  const db = await MysqlDatabase.open({ url, poolSize: 5, queryTimeoutMs: 30_000 });
  onTestFinished(async () => {
    await db.close();
    await server.drop();
  });
  return { db, url };
}

const names = MIGRATIONS.map(({ name }) => name);

/** The definition of the tables, as the server prints it. */
async function shape(db: MysqlDatabase): Promise<unknown> {
  const columns = await db.query(
    `select table_name, column_name, column_type, is_nullable, collation_name from information_schema.columns
     where table_schema = database() order by table_name, ordinal_position`,
  );
  const indexes = await db.query(
    `select table_name, index_name, column_name, seq_in_index from information_schema.statistics
     where table_schema = database() order by table_name, index_name, seq_in_index`,
  );
  const slots = await db.query('select count(*) as n from outlast_ordering_key');
  return { columns, indexes, slots };
}

describe('migrations', () => {
  it('are applied once when several processes start at the same time', async () => {
    const db = await setup();
    const reports = await Promise.all([migrate(db), migrate(db), migrate(db)]);
    expect(reports.map(({ applied }) => applied.length).toSorted((a, b) => a - b)).toEqual([
      0,
      0,
      names.length,
    ]);
    await expect(checkSchema(db)).resolves.toBeUndefined();
  });

  it('continue after a crash before or after any statement', async () => {
    const db = await setup();
    await migrate(db);
    const expected = await shape(db);
    const statements = MIGRATIONS.flatMap(({ version, statements: list }) =>
      list.map((text, step) => ({ version, step, text })),
    );
    for (const cut of statements) {
      for (const isDone of [false, true]) {
        await undoFrom(db, cut, isDone);
        await expect(checkSchema(db)).rejects.toMatchObject({ code: 'ERR_SCHEMA_MISSING' });
        await migrate(db);
        await checkSchema(db);
        expect(await shape(db)).toEqual(expected);
      }
    }
  });

  it('wait for another process that migrates, longer than a statement may take', async () => {
    const { db, url } = await setupAt();
    const lock = `concat('outlast-migrate-', md5(database()))`;
    const [held, goesOn] = [gate(), gate()];
    const holding = db.alone(async session => {
      await session.query(`select get_lock(${lock}, 0)`);
      held.open();
      await goesOn.opened;
    });
    await held.opened;
    const hasty = await MysqlDatabase.open({ url, poolSize: 1, queryTimeoutMs: 6_000 });
    onTestFinished(() => hasty.close());
    await expect(migrate(hasty, { lockWaitSeconds: 8 })).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      message: expect.stringContaining('another process') as string,
    });
    goesOn.open();
    await holding;
    expect((await migrate(db)).applied).toEqual(names);
  });

  const withNext = (
    ...statements: string[]
  ): NonNullable<NonNullable<Parameters<typeof migrate>[1]>['migrations']> => [
    ...MIGRATIONS,
    { version: 90, name: 'next', breaking: false, inTransaction: true, statements },
  ];

  it('take longer than a statement of ours may take', async () => {
    const { db, url } = await setupAt();
    await migrate(db);
    const hasty = await MysqlDatabase.open({ url, poolSize: 2, queryTimeoutMs: 500 });
    onTestFinished(() => hasty.close());
    const lines: string[] = [];
    const migrations = withNext('set @slept = sleep(2)');
    const { applied } = await migrate(hasty, { migrations, onProgress: line => lines.push(line) });
    expect(applied).toEqual(['next']);
    expect(lines).toContainEqual(expect.stringMatching(/^next, statement 1 of 1 .*, \d+ s$/));
  });

  it('let others go on between their attempts while an open transaction keeps a table', async () => {
    const { db } = await setupAt();
    await migrate(db);
    await db.query('create table outlast_probe (id int) engine = InnoDB');
    const [held, goesOn, seen] = [gate(), gate(), gate()];
    const holding = db.transaction(async tx => {
      await tx.query('insert into outlast_probe values (1)');
      held.open();
      // The server ends a transaction that is idle for ten seconds.
      const awake = setInterval(() => void tx.query('select 1'), 1_000);
      await goesOn.opened;
      clearInterval(awake);
    });
    await held.opened;
    const migrating = migrate(db, {
      migrations: withNext('alter table outlast_probe add column extra int'),
      patience: { timeoutMs: 1_000, attempts: 1_000, maxPauseMs: 100 },
      onProgress: line => {
        if (/a table is in use by thread \d+ \(transaction open for \d+ s\)/.test(line))
          seen.open();
      },
    });
    await seen.opened;
    await db.query('insert into outlast_probe (id) values (2)');
    goesOn.open();
    await holding;
    expect((await migrating).applied).toEqual(['next']);
  });

  it('fail when a table of the same name exists already', async () => {
    const db = await setup();
    await db.query('create table outlast_outbox (id int)');
    await expect(migrate(db)).rejects.toMatchObject({ errno: 1050 });
  });

  it('from a newer version are refused if they are marked breaking, and accepted otherwise', async () => {
    const db = await setup();
    await migrate(db);
    await db.query(
      `insert into outlast_migration values (99, '0099-later', false, 1, utc_timestamp(6))`,
    );
    await expect(checkSchema(db)).resolves.toBeUndefined();
    await db.query('update outlast_migration set breaking = true where version = 99');
    await expect(checkSchema(db)).rejects.toMatchObject({ code: 'ERR_SCHEMA_NEWER', found: 99 });
    await expect(migrate(db)).rejects.toMatchObject({ code: 'ERR_SCHEMA_NEWER' });
  });

  it('from before the first release are refused', async () => {
    const db = await setup();
    await migrate(db);
    await db.query(`update outlast_migration set name = '0001-outbox'`);
    await expect(checkSchema(db)).rejects.toMatchObject({ code: 'ERR_SCHEMA_MISSING' });
    await expect(migrate(db)).rejects.toMatchObject({ code: 'ERR_SCHEMA_MISSING' });
  });
});

/** Leaves the database as a process does that was killed before this statement or, with `isDone`, after it. */
async function undoFrom(
  db: MysqlDatabase,
  cut: { readonly version: number; readonly step: number },
  isDone: boolean,
): Promise<void> {
  const tables = await db.query(
    `select table_name as name from information_schema.tables where table_schema = database()`,
  );
  for (const { name } of tables) await db.query(`drop table ${String(name)}`);
  await db.query(
    `create table outlast_migration (version int not null primary key, name varchar(160) not null, breaking boolean not null,
      steps int not null, applied_at datetime(6)) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`,
  );
  for (const { version, name, statements } of MIGRATIONS) {
    if (version > cut.version) return;
    const isCut = version === cut.version;
    const done = isCut ? cut.step + (isDone ? 1 : 0) : statements.length;
    for (const text of statements.slice(0, done)) await db.query(text);
    await db.query('insert into outlast_migration values (?, ?, false, ?, ?)', [
      version,
      name,
      isCut ? cut.step : statements.length,
      isCut ? null : '2026-01-01',
    ]);
  }
}

describe('a server with statement-based binary logging', () => {
  it('is refused, because it would reject our writes', async () => {
    const variables = (format: string) => [
      { Variable_name: 'log_bin', Value: 'ON' },
      { Variable_name: 'binlog_format', Value: format },
    ];
    // The binary log cannot be switched on while a server runs, so its answers are faked here.
    const answering = (format: string): MysqlDatabase =>
      ({
        query: async (text: string) => (text.includes('binlog_format') ? variables(format) : []),
      }) as unknown as MysqlDatabase;
    await expect(checkSchema(answering('STATEMENT'))).rejects.toMatchObject({
      code: 'ERR_DATABASE_SETTING',
      setting: 'binlog_format',
    });
    await expect(checkSchema(answering('MIXED'))).rejects.toMatchObject({
      code: 'ERR_SCHEMA_MISSING',
    });
  });
});

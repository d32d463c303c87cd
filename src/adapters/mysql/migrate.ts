import { outlastError } from '../../errors/error.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import type { MysqlDatabase, MysqlRow } from './mysql-database.ts';
import { isPresent } from './mysql-errors.ts';
import { SQL } from './sql.generated.ts';

export interface MigrateReport {
  /** Names of the migrations applied by this call, in order. */
  readonly applied: readonly string[];
  readonly version: number;
}

interface Runner {
  query(
    text: string,
    params?: readonly (string | number | boolean)[],
  ): Promise<readonly MysqlRow[]>;
}

type Migration = (typeof MIGRATIONS)[number];

const KNOWN_VERSION: number = MIGRATIONS.at(-1)?.version ?? 0;
const LOCK = `concat('outlast-migrate-', md5(database()))`;
const LOCK_WAIT_SECONDS = 60;

// A migration is written down before its first statement and finished after its last: tables cannot be made in a
// transaction here, so one that was cut off must be able to go on.
const CREATE_LOG = `create table if not exists outlast_migration (
  version int not null primary key, name varchar(160) not null, breaking boolean not null, steps int not null,
  applied_at datetime(6)) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`;

/** Applies what is missing, under a lock by name: of many starters one migrates, the others find it done. */
export async function migrate(db: MysqlDatabase): Promise<MigrateReport> {
  return await db.alone(async session => {
    await session.query(SQL.setUnlimited.text);
    const [lock] = await session.query(`select get_lock(${LOCK}, ${LOCK_WAIT_SECONDS}) as taken`);
    if (Number(lock?.['taken']) !== 1) throw lockBusy();
    await session.query(CREATE_LOG);
    const log = await readLog(session);
    const applied: string[] = [];
    for (const migration of MIGRATIONS) {
      const row = log.get(migration.version);
      if (row?.isApplied) continue;
      await apply(session, migration, row?.steps ?? null);
      applied.push(migration.name);
    }
    return { applied, version: Math.max(KNOWN_VERSION, ...log.keys()) };
  });
}

/** Each statement is atomic by itself. The first one of a migration that was cut off may have been done already. */
async function apply(runner: Runner, migration: Migration, steps: number | null): Promise<void> {
  const { version, name, breaking, statements } = migration;
  if (steps === null)
    await runner.query(
      'insert into outlast_migration (version, name, breaking, steps) values (?, ?, ?, 0)',
      [version, name, breaking],
    );
  for (const [step, statement] of statements.entries()) {
    if (step < (steps ?? 0)) continue;
    const isUnsure = step === steps;
    await runner.query(statement).catch((error: unknown) => {
      if (!isUnsure || !isPresent(error)) throw error;
    });
    await runner.query('update outlast_migration set steps = ? where version = ?', [
      step + 1,
      version,
    ]);
  }
  await runner.query(
    'update outlast_migration set applied_at = utc_timestamp(6) where version = ?',
    [version],
  );
}

/** Refuses a database that has no tables, lacks some, or was migrated by a newer version in a way we cannot work with. */
export async function checkSchema(db: MysqlDatabase): Promise<void> {
  const [present] = await db.query(
    `select count(*) as tables from information_schema.tables where table_schema = database() and table_name = 'outlast_migration'`,
  );
  const log = Number(present?.['tables']) === 1 ? await readLog(db) : new Map<number, LogRow>();
  const isComplete = MIGRATIONS.every(({ version }) => log.get(version)?.isApplied);
  if (isComplete) return;
  throw outlastError('ERR_SCHEMA_MISSING', {
    message:
      log.size === 0
        ? "the database has none of Outlast's tables"
        : `the database lacks migrations of this version (${KNOWN_VERSION})`,
    hint: 'Run: npx outlast migrate, with --outbox NAME for a named outbox',
    fields: {},
  });
}

interface LogRow {
  readonly steps: number;
  readonly isApplied: boolean;
}

async function readLog(runner: Runner): Promise<ReadonlyMap<number, LogRow>> {
  const rows = await runner.query(
    'select version, breaking, steps, applied_at is not null as is_applied from outlast_migration order by version',
  );
  const newer = rows.filter(row => Number(row['version']) > KNOWN_VERSION);
  if (newer.some(row => Number(row['breaking']) === 1)) {
    const found = Number(newer.at(-1)?.['version']);
    throw outlastError('ERR_SCHEMA_NEWER', {
      message: `the database is at schema version ${found}, which this version (${KNOWN_VERSION}) cannot work with`,
      hint: 'Upgrade this process to the version of outlast that migrated the database.',
      fields: { found, known: KNOWN_VERSION },
    });
  }
  return new Map(
    rows.map(row => [
      Number(row['version']),
      { steps: Number(row['steps']), isApplied: Number(row['is_applied']) === 1 },
    ]),
  );
}

function lockBusy(): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `somebody else has been migrating this database for ${LOCK_WAIT_SECONDS} seconds`,
    hint: 'Wait until that has ended, then run: npx outlast migrate',
    fields: {},
  });
}

/**
 * The SQL of all migrations, for people who apply it themselves. It keeps the same log under the same lock, so that
 * `migrate` finds it done afterwards.
 */
export function printMigrations(): string {
  const parts = MIGRATIONS.map(({ name, version, breaking, statements }) => {
    const logged = `insert into outlast_migration (version, name, breaking, steps, applied_at) values (${version}, '${name}', ${breaking}, ${statements.length}, utc_timestamp(6))`;
    return `-- ${name}\n${[...statements, logged].join(';\n')};\n`;
  });
  const opening = `select get_lock(${LOCK}, ${LOCK_WAIT_SECONDS});\n${CREATE_LOG};\n`;
  return [opening, ...parts, `select release_lock(${LOCK});`].join('\n');
}

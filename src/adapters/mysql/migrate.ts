import { outlastError } from '../../errors/error.ts';
import type { MigrateOptions, MigrateReport } from '../sql/dialect.ts';
import {
  lockPatience,
  MigrationWatch,
  retryLocked,
  shortened,
  type LockPatience,
  type StatementLook,
} from '../sql/migration-steps.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import type { MysqlDatabase, MysqlRow } from './mysql-database.ts';
import { isLockWait, isPresent } from './mysql-errors.ts';
import { SQL } from './sql.generated.ts';

export interface Runner {
  query(
    text: string,
    params?: readonly (string | number | boolean)[],
  ): Promise<readonly MysqlRow[]>;
}

interface Changer extends Runner {
  /** A statement of a migration. */
  change(statement: string, step: number): Promise<unknown>;
}

type Migration = (typeof MIGRATIONS)[number];

const KNOWN_VERSION: number = MIGRATIONS.at(-1)?.version ?? 0;
const LOCK = `concat('outlast-migrate-', md5(database()))`;
const LOCK_WAIT_SECONDS = 60;
/** Less than the time that any statement has for its answer: the server is asked for the lock again and again. */
const LOCK_ASK_SECONDS = 1;

// A migration is logged before its first statement and finished after its last: tables cannot be created in a
// transaction here, so an interrupted migration must be able to go on.
const CREATE_LOG = `create table if not exists outlast_migration (
  version int not null primary key, name varchar(160) not null, breaking boolean not null, steps int not null,
  applied_at datetime(6)) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`;

export interface MigrateDeps extends MigrateOptions {
  readonly migrations?: readonly Migration[];
  readonly patience?: LockPatience;
  readonly lockWaitSeconds?: number;
}

/** Applies what is missing, under a named lock: of many processes one migrates, the others find it done. */
export async function migrate(db: MysqlDatabase, deps: MigrateDeps = {}): Promise<MigrateReport> {
  const { migrations = MIGRATIONS, patience = lockPatience(1_000) } = deps;
  const watch = new MigrationWatch(deps);
  return await db.alone(async session => {
    await session.query(SQL.setUnlimited.text);
    await takeLock(session, deps.lockWaitSeconds ?? LOCK_WAIT_SECONDS);
    await session.query(CREATE_LOG);
    const log = await readLog(session);
    const [own] = await session.query('select connection_id() as id');
    const look = (): Promise<StatementLook> => lookAt(db, Number(own?.['id']));
    const applied: string[] = [];
    for (const migration of migrations) {
      const row = log.get(migration.version);
      if (row?.isApplied) continue;
      const change = (statement: string, step: number): Promise<unknown> => {
        const label = `${migration.name}, statement ${step + 1} of ${migration.statements.length} (${shortened(statement)})`;
        const locked = { name: () => migration.name, patience, watch, isLocked: isLockWait };
        return retryLocked(locked, () => watch.during(label, look, () => session.query(statement)));
      };
      await apply(
        { query: (text, params) => session.query(text, params), change },
        migration,
        row?.steps ?? null,
      );
      applied.push(migration.name);
    }
    return { applied, version: Math.max(KNOWN_VERSION, ...log.keys()) };
  });
}

/** What the statement waits for is not known on every server, so all open transactions are named. */
async function lookAt(db: MysqlDatabase, own: number): Promise<StatementLook> {
  const rows = await db.rows(SQL.openTransactions, [own]);
  return { blockers: rows.map(row => shortened(String(row['blocker']))), progress: null };
}

export async function takeLock(runner: Runner, waitSeconds: number): Promise<void> {
  for (let waited = 0; waited < waitSeconds; waited += LOCK_ASK_SECONDS) {
    const [lock] = await runner.query(`select get_lock(${LOCK}, ${LOCK_ASK_SECONDS}) as taken`);
    if (Number(lock?.['taken']) === 1) return;
  }
  throw lockBusy(waitSeconds);
}

/** Each statement is atomic by itself. The first one of an interrupted migration may have been done already. */
async function apply(runner: Changer, migration: Migration, steps: number | null): Promise<void> {
  const { version, name, breaking, statements } = migration;
  if (steps === null)
    await runner.query(
      'insert into outlast_migration (version, name, breaking, steps) values (?, ?, ?, 0)',
      [version, name, breaking],
    );
  for (const [step, statement] of statements.entries()) {
    if (step < (steps ?? 0)) continue;
    const isUnsure = step === steps;
    await runner.change(statement, step).catch((error: unknown) => {
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
  await refuseBadSetting(db);
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

/**
 * A statement-based binary log cannot be written under READ COMMITTED: every write of ours would fail, one by one. Every
 * other setting that could change how we read or compare is set for our sessions: `test/conformance/hostile-mariadb.test.ts`.
 */
async function refuseBadSetting(db: Runner): Promise<void> {
  const rows = await db.query(`show variables where variable_name in ('log_bin', 'binlog_format')`);
  const settings = new Map(rows.map(row => [row['Variable_name'], row['Value']]));
  if (settings.get('log_bin') !== 'ON' || settings.get('binlog_format') !== 'STATEMENT') return;
  throw outlastError('ERR_DATABASE_SETTING', {
    message: 'the server has binlog_format = STATEMENT, which takes no writes under READ COMMITTED',
    hint: 'Set binlog_format to ROW or MIXED.',
    fields: { setting: 'binlog_format', value: 'STATEMENT' },
  });
}

interface LogRow {
  readonly steps: number;
  readonly isApplied: boolean;
}

export async function readLog(runner: Runner): Promise<ReadonlyMap<number, LogRow>> {
  const rows = await runner.query(
    'select version, name, breaking, steps, applied_at is not null as is_applied from outlast_migration order by version',
  );
  const [first] = rows;
  if (first && first['name'] !== MIGRATIONS[0].name) throw unreleasedSchema();
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

/** The migrations before 0.1.0 were merged into one: their numbers would be mistaken for those of later ones. */
function unreleasedSchema(): Error {
  return outlastError('ERR_SCHEMA_MISSING', {
    message: "Outlast's tables in this database are of a version before the first release",
    hint: 'Let that version finish its tasks, drop the tables outlast_*, then run: npx outlast migrate --outbox NAME',
    fields: {},
  });
}

function lockBusy(waitSeconds: number): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `another process has been migrating this database for ${waitSeconds} seconds`,
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

import { outlastError } from '../../errors/error.ts';
import type { MigrateOptions, MigrateReport } from '../sql/dialect.ts';
import { lockPatience, MigrationWatch, type LockPatience } from '../sql/migration-steps.ts';
import type { SqlDatabase, SqlRunner } from '../sql/sql-database.ts';
import { refuseBadSetting, SETTING_COLUMNS } from './check-settings.ts';
import { applyNext, MIGRATION_LOCK, type LiveMigration, type Migration } from './migrate-live.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { SchemaNames } from './schema-names.ts';

const KNOWN_VERSION: number = MIGRATIONS.length;
/** How long every `send` waits at most behind a change that waits for a table. */
const LOCK_TIMEOUT_MS = 300;
const TURN_MS = 60_000;

const CREATE_LOG = `create table if not exists outlast_migration (
  version integer primary key, name text not null, breaking boolean not null, applied_at timestamptz not null default clock_timestamp())`;

type Database = SqlDatabase & Pick<PostgresDatabase, 'withoutLimits'>;

export interface MigrateDeps extends MigrateOptions {
  readonly migrations?: readonly Migration[];
  readonly patience?: LockPatience;
  readonly turnMs?: number;
  /** Made if it is not there. */
  readonly schema?: string;
}

/**
 * Applies what is missing, each migration in a transaction of its own and under one lock: of many processes one migrates,
 * the others find it done.
 */
export async function migrate(db: Database, deps: MigrateDeps = {}): Promise<MigrateReport> {
  const applied: string[] = [];
  let version = 0;
  const watch = new MigrationWatch(deps);
  const find = async (tx: SqlRunner): Promise<Migration | null> => {
    if (deps.schema !== undefined) await createSchema(tx, deps.schema);
    await tx.query(CREATE_LOG);
    version = await readVersion(tx);
    if (version === 0) await reportOthers(tx, watch);
    return (deps.migrations ?? MIGRATIONS).find(migration => migration.version > version) ?? null;
  };
  const { patience = lockPatience(LOCK_TIMEOUT_MS), turnMs = TURN_MS } = deps;
  const next = (): Promise<Migration | null> =>
    isShared(db)
      ? applyNext({ db, watch, patience, turnMs }, find, writeLog)
      : applyEmbedded(db, find);
  for (;;) {
    const migration = await next();
    if (migration === null) return { applied, version };
    applied.push(migration.name);
  }
}

const isShared = (db: Database): db is Database & LiveMigration['db'] =>
  db.withoutLimits !== undefined;

/** One connection serves all there: no other session is kept waiting, and no index need be built beside it. */
async function applyEmbedded(
  db: SqlDatabase,
  find: (tx: SqlRunner) => Promise<Migration | null>,
): Promise<Migration | null> {
  return await db.transaction(async tx => {
    await tx.query('select pg_advisory_xact_lock($1::bigint)', [MIGRATION_LOCK]);
    const migration = await find(tx);
    if (migration === null) return null;
    for (const statement of migration.statements)
      await tx.query(statement.replace(/ index concurrently /i, ' index '));
    await writeLog(tx, migration);
    return migration;
  });
}

async function writeLog(tx: SqlRunner, { version, name, breaking }: Migration): Promise<void> {
  await tx.query('insert into outlast_migration (version, name, breaking) values ($1, $2, $3)', [
    version,
    name,
    breaking,
  ]);
}

/** PostgreSQL asks for the right to make schemas before it looks whether there is something to make. */
async function createSchema(tx: SqlRunner, schema: string): Promise<void> {
  const [found] = await tx.query('select 1 from pg_namespace where nspname = $1', [schema]);
  if (found === undefined) await tx.query(`create schema "${schema}"`);
}

/** Tables of ours that these sessions do not look at. The name is in two pieces, so that no schema is put before it. */
const OTHER_SCHEMAS = `select n.nspname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relname = 'outlast' || '_migration' and c.relkind = 'r' and c.oid is distinct from to_regclass('outlast_migration')
  order by n.nspname`;

async function otherSchemas(runner: SqlRunner): Promise<readonly string[]> {
  return (await runner.query(OTHER_SCHEMAS)).map(row => row['name'] as string);
}

/** A configuration that changed its schema finds no task any more that is not done. */
async function reportOthers(tx: SqlRunner, watch: MigrationWatch): Promise<void> {
  const others = await otherSchemas(tx);
  if (others.length > 0)
    watch.report(
      `this database has tables of Outlast in schema ${others.join(', ')}, too: tasks there stay there`,
    );
}

/**
 * Refuses a database that has no tables, lacks some, was migrated by a newer version in a way we cannot work with, or has
 * a setting we cannot work under. Returns the version it found.
 */
export async function checkSchema(db: SqlDatabase): Promise<number> {
  const [found] = await db.query(
    `select to_regclass('outlast_migration') is not null as present, ${SETTING_COLUMNS}`,
  );
  refuseBadSetting(found ?? {});
  const version = found?.['present'] === true ? await readVersion(db) : 0;
  if (version >= KNOWN_VERSION) return version;
  const others = version === 0 ? await otherSchemas(db) : [];
  throw outlastError('ERR_SCHEMA_MISSING', {
    message:
      version === 0
        ? "the database has none of Outlast's tables here"
        : `the database is at schema version ${version}, this version needs ${KNOWN_VERSION}`,
    hint:
      others.length === 0
        ? 'Run: npx outlast migrate'
        : `There are some in schema ${others.join(', ')}: if those are meant, name it as \`schema\`. Else run: npx outlast migrate`,
    fields: {},
  });
}

export async function readVersion(runner: SqlRunner): Promise<number> {
  const rows = await runner.query(
    'select version, name, breaking from outlast_migration order by version',
  );
  const [first] = rows;
  if (first && first['name'] !== MIGRATIONS[0].name) throw unreleasedSchema();
  const newer = rows.filter(row => (row['version'] as number) > KNOWN_VERSION);
  if (newer.some(row => row['breaking'] === true)) {
    const found = newer.at(-1)?.['version'] as number;
    throw outlastError('ERR_SCHEMA_NEWER', {
      message: `the database is at schema version ${found}, which this version (${KNOWN_VERSION}) cannot work with`,
      hint: 'Upgrade this process to the version of outlast that migrated the database.',
      fields: { found, known: KNOWN_VERSION },
    });
  }
  return (rows.at(-1)?.['version'] as number | undefined) ?? 0;
}

/** The migrations before 0.1.0 were merged into one: their numbers would be mistaken for those of later ones. */
function unreleasedSchema(): Error {
  return outlastError('ERR_SCHEMA_MISSING', {
    message: "Outlast's tables in this database are of a version before the first release",
    hint: 'Let that version finish its tasks, drop the tables outlast_*, then run: npx outlast migrate',
    fields: {},
  });
}

/**
 * The SQL of all migrations, for people who apply it themselves. It keeps the same log under the same lock, so that
 * `migrate` finds it done afterwards.
 */
export function printMigrations(
  schema?: string,
  migrations: readonly Migration[] = MIGRATIONS,
): string {
  const begin = `begin;\nselect pg_advisory_xact_lock(${MIGRATION_LOCK});`;
  const names = schema === undefined ? null : new SchemaNames(schema);
  const parts = migrations.map(({ name, version, breaking, inTransaction, statements }) => {
    const logged = `insert into outlast_migration (version, name, breaking) values (${version}, '${name}', ${breaking})`;
    const all = [...statements, logged].map(text => `${names?.text(text) ?? text};`).join('\n');
    return inTransaction
      ? `-- ${name}\n${begin}\n${all}\ncommit;\n`
      : `-- ${name}: outside of a transaction\n${all}\n`;
  });
  const made = schema === undefined ? [] : [`create schema if not exists "${schema}";`];
  return [...made, `${names?.text(CREATE_LOG) ?? CREATE_LOG};\n`, ...parts].join('\n');
}

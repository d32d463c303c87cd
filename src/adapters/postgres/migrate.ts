import { outlastError } from '../../errors/error.ts';
import type { MigrateReport } from '../sql/dialect.ts';
import { refuseBadSetting, SETTING_COLUMNS } from './check-settings.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import type { SqlDatabase, SqlRunner } from '../sql/sql-database.ts';

const KNOWN_VERSION: number = MIGRATIONS.length;
// Any number that no other program uses: "outlast" on a telephone keypad.
const MIGRATION_LOCK = '6885278';

const CREATE_LOG = `create table if not exists outlast_migration (
  version integer primary key, name text not null, breaking boolean not null, applied_at timestamptz not null default clock_timestamp())`;

/** Applies what is missing, in one transaction and under one lock: of many processes one migrates, the others find it done. */
export async function migrate(db: SqlDatabase): Promise<MigrateReport> {
  return await db.transaction(async tx => {
    await tx.query('select pg_advisory_xact_lock($1::bigint)', [MIGRATION_LOCK]);
    await tx.query(CREATE_LOG);
    const version = await readVersion(tx);
    const missing = MIGRATIONS.filter(migration => migration.version > version);
    for (const migration of missing) {
      for (const statement of migration.statements) await tx.query(statement);
      await tx.query(
        'insert into outlast_migration (version, name, breaking) values ($1, $2, $3)',
        [migration.version, migration.name, migration.breaking],
      );
    }
    return {
      applied: missing.map(migration => migration.name),
      version: Math.max(version, KNOWN_VERSION),
    };
  });
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
  throw outlastError('ERR_SCHEMA_MISSING', {
    message:
      version === 0
        ? "the database has none of Outlast's tables"
        : `the database is at schema version ${version}, this version needs ${KNOWN_VERSION}`,
    hint: 'Run: npx outlast migrate',
    fields: {},
  });
}

async function readVersion(runner: SqlRunner): Promise<number> {
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
export function printMigrations(): string {
  const parts = MIGRATIONS.map(({ name, version, breaking, statements }) => {
    const logged = `insert into outlast_migration (version, name, breaking) values (${version}, '${name}', ${breaking})`;
    return `-- ${name}\n${[...statements, logged].join(';\n')};\n`;
  });
  const opening = `begin;\nselect pg_advisory_xact_lock(${MIGRATION_LOCK});\n${CREATE_LOG};\n`;
  return [opening, ...parts, 'commit;'].join('\n');
}

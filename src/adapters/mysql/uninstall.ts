import type { MigrateOptions, UninstallReport } from '../sql/dialect.ts';
import { lockPatience, MigrationWatch, retryLocked } from '../sql/migration-steps.ts';
import { madeBy, NOTHING_LEFT, refuseLeftovers } from '../sql/uninstall.ts';
import { readLog, takeLock, type Runner } from './migrate.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { isLockWait } from './mysql-errors.ts';
import { SQL } from './sql.generated.ts';

const ATTEMPTS = 5;
const LOCK_WAIT_SECONDS = 60;

/** The log last: what was begun and killed is found again by it. */
const TABLES: readonly string[] = [...madeBy(MIGRATIONS).table, 'outlast_migration'];

/** Drops all tables. Other sessions are kept out by their locks, because no transaction can undo a drop here. */
export async function uninstall(
  db: MysqlDatabase,
  options: MigrateOptions = {},
): Promise<UninstallReport> {
  const watch = new MigrationWatch(options);
  const patience = { ...lockPatience(1_000), attempts: ATTEMPTS };
  return await db.alone(async session => {
    await session.query(SQL.setUnlimited.text);
    await takeLock(session, LOCK_WAIT_SECONDS);
    const present = await tablesIn(session);
    if (!present.includes('outlast_migration')) return { dropped: [] };
    await readLog(session);
    await retryLocked({ name: () => 'uninstall', patience, watch, isLocked: isLockWait }, () =>
      session.query(`lock tables ${present.map(name => `${name} write`).join(', ')}`),
    );
    await refuseLeft(session, present);
    for (const name of present) await session.query(`drop table ${name}`);
    return { dropped: present };
  });
}

async function tablesIn(session: Runner): Promise<readonly string[]> {
  const rows = await session.query(
    'select table_name as name from information_schema.tables where table_schema = database()',
  );
  const found = new Set(rows.map(row => String(row['name'])));
  return TABLES.filter(name => found.has(name));
}

/** One statement for each table: under locks none may name a table twice. A table that is not there was dropped empty. */
async function refuseLeft(session: Runner, present: readonly string[]): Promise<void> {
  const count = async (table: string, where = 'true'): Promise<number> => {
    if (!present.includes(table)) return 0;
    const [row] = await session.query(`select count(*) as n from ${table} where ${where}`);
    return Number(row?.['n']);
  };
  refuseLeftovers({
    ...NOTHING_LEFT,
    outboxRows: await count('outlast_outbox'),
    deadLetters: await count('outlast_dead_letter'),
    schedules: await count('outlast_schedule', `origin = 'api' and next_slot_ms is not null`),
    relays: await count('outlast_relay', 'lease_until > utc_timestamp(6)'),
  });
}

/** For people who run it themselves, after a look at the figures it begins with. */
export function printUninstall(): string {
  return [
    '-- Go on only if all are 0.',
    'select count(*) from outlast_outbox;',
    'select count(*) from outlast_dead_letter;',
    `select count(*) from outlast_schedule where origin = 'api' and next_slot_ms is not null;`,
    ...TABLES.map(name => `drop table if exists ${name};`),
    '',
  ].join('\n');
}

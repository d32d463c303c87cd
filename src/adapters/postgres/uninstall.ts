import type { MigrateOptions, UninstallReport } from '../sql/dialect.ts';
import { lockPatience, MigrationWatch, retryLocked } from '../sql/migration-steps.ts';
import type { SqlRow, SqlRunner } from '../sql/sql-database.ts';
import { madeBy, refuseLeftovers } from '../sql/uninstall.ts';
import { readVersion } from './migrate.ts';
import { isLocked, MIGRATION_LOCK } from './migrate-live.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { SchemaNames } from './schema-names.ts';

/** Long enough for a quiet database. Everything that comes after us waits as long as we do. */
const LOCK_TIMEOUT_MS = 1_000;
const ATTEMPTS = 5;

const MADE = madeBy(MIGRATIONS);
const TABLES: readonly string[] = [...MADE.table, 'outlast_migration'];

/** No task comes in, and none begins, between the count and the drop. */
const lockTables = (hasSchedules: boolean): string =>
  `lock table outlast_outbox, outlast_task, outlast_dead_letter, outlast_after, ${hasSchedules ? 'outlast_schedule, ' : ''}outlast_worker, outlast_relay in access exclusive mode`;
const SCHEDULES =
  "(select count(*) from outlast_schedule where origin = 'api' and next_slot_ms is not null)";
const countLeft = (
  hasSchedules: boolean,
): string => `select (select count(*) from outlast_outbox)::text as outbox_rows,
  (select count(*) from outlast_task where state in ('waiting', 'refused', 'running'))::text as tasks,
  ((select count(*) from outlast_dead_letter) + (select count(*) from outlast_task where state = 'dead'))::text as dead_letters,
  (select count(*) from outlast_after)::text as follow_ups,
  ${hasSchedules ? SCHEDULES : '0'}::text as schedules,
  (select count(*) from outlast_worker where state = 'open' and deadline > clock_timestamp())::text as workers,
  (select count(*) from outlast_relay where lease_until > clock_timestamp())::text as relays`;
const DROPS: readonly string[] = [
  `drop table if exists ${TABLES.join(', ')}`,
  ...MADE.function.map(name => `drop function if exists ${name}`),
];

export interface UninstallDeps extends MigrateOptions {
  readonly schema?: string;
}

/** Drops all that migrations made, in one transaction that holds the tables: refused if a task or a process is left. */
export async function uninstall(
  db: PostgresDatabase,
  { schema, ...options }: UninstallDeps = {},
): Promise<UninstallReport> {
  const withoutLimits = db.withoutLimits?.bind(db);
  if (withoutLimits === undefined) return await db.transaction(tx => drop(tx, schema));
  const watch = new MigrationWatch(options);
  const patience = { ...lockPatience(LOCK_TIMEOUT_MS), attempts: ATTEMPTS };
  return await retryLocked({ name: () => 'uninstall', patience, watch, isLocked }, () =>
    withoutLimits(async session => {
      await session.query('begin isolation level read committed');
      await session.query(
        `set local statement_timeout = 0; set local lock_timeout = ${LOCK_TIMEOUT_MS}; set local idle_in_transaction_session_timeout = 10000`,
      );
      const report = await drop(session, schema);
      await session.query('commit');
      return report;
    }),
  );
}

async function drop(tx: SqlRunner, schema: string | undefined): Promise<UninstallReport> {
  await tx.query(`select pg_advisory_xact_lock(${MIGRATION_LOCK})`);
  const [log] = await tx.query(`select to_regclass('outlast_migration') is not null as present`);
  if (log?.['present'] !== true) return { dropped: [] };
  // Tables of a newer version, or of one before the first release, are not ours to count.
  await readVersion(tx);
  // A database of an older version has none.
  const [table] = await tx.query(`select to_regclass('outlast_schedule') is not null as present`);
  const hasSchedules = table?.['present'] === true;
  await tx.query(lockTables(hasSchedules));
  const [row = {}] = await tx.query(countLeft(hasSchedules));
  refuseLeftovers(leftIn(row));
  for (const statement of DROPS) await tx.query(statement);
  if (schema !== undefined) await dropSchema(tx, schema);
  return { dropped: TABLES };
}

const leftIn = (row: SqlRow): Parameters<typeof refuseLeftovers>[0] => ({
  outboxRows: Number(row['outbox_rows']),
  tasks: Number(row['tasks']),
  deadLetters: Number(row['dead_letters']),
  followUps: Number(row['follow_ups']),
  schedules: Number(row['schedules']),
  workers: Number(row['workers']),
  relays: Number(row['relays']),
});

/** Only an empty one that is ours: others may have put something there, or made it. */
async function dropSchema(tx: SqlRunner, schema: string): Promise<void> {
  if (schema === 'public') return;
  const [found] = await tx.query(
    `select 1 from pg_namespace n where n.nspname = $1 and pg_has_role(n.nspowner, 'usage')
       and not exists (select 1 from pg_depend d where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid)`,
    [schema],
  );
  if (found !== undefined) await tx.query(`drop schema "${schema}"`);
}

/** The same for people who run it themselves: the server refuses it while something is left. */
export function printUninstall(schema?: string): string {
  const names = schema === undefined ? null : new SchemaNames(schema);
  const check = `do $$ declare l record; begin ${countLeft(true).replace('select (', 'select into l (')};
  if l.outbox_rows <> '0' or l.tasks <> '0' or l.dead_letters <> '0' or l.follow_ups <> '0' or l.schedules <> '0' or l.workers <> '0' or l.relays <> '0'
  then raise exception 'something is left: %', l; end if; end $$`;
  const steps = [
    'begin',
    `select pg_advisory_xact_lock(${MIGRATION_LOCK})`,
    lockTables(true),
    check,
    ...DROPS,
    'commit',
    // By itself: it is refused where others have put something there.
    ...(schema === undefined || schema === 'public' ? [] : [`drop schema if exists "${schema}"`]),
  ];
  return steps.map(step => `${names?.text(step) ?? step};\n`).join('');
}

import { outlastError } from '../../errors/error.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import {
  retryLocked,
  shortened,
  type LockPatience,
  type MigrationWatch,
  type StatementLook,
} from '../sql/migration-steps.ts';
import type { SqlRow, SqlRunner } from '../sql/sql-database.ts';
import type { MIGRATIONS } from './migrations.generated.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { sqlStateOf } from './pg-errors.ts';

export type Migration = (typeof MIGRATIONS)[number];

/** A database with sessions of others, in which tables are changed while they work. */
export type LiveDatabase = SqlRunner & Required<Pick<PostgresDatabase, 'withoutLimits'>>;

export interface LiveMigration {
  readonly db: LiveDatabase;
  readonly watch: MigrationWatch;
  readonly patience: LockPatience;
  /** How long another process may migrate before this one gives up. */
  readonly turnMs: number;
}

// Any number that no other program uses: "outlast" on a telephone keypad.
export const MIGRATION_LOCK = '6885278';
const ASK_AGAIN_MS = 200;

/** A lock that was not to be had in time, or a deadlock: the transaction has done nothing. */
export const isLocked = (error: unknown): boolean => {
  const state = sqlStateOf(error);
  return state === '55P03' || state === '40P01';
};

/** The next migration that is missing, found and applied under the lock of migrations; null: there is none. */
export async function applyNext(
  live: LiveMigration,
  find: (tx: SqlRunner) => Promise<Migration | null>,
  log: (tx: SqlRunner, migration: Migration) => Promise<void>,
): Promise<Migration | null> {
  let name = 'the log of migrations';
  const step = { ...live, isLocked, name: (): string => name };
  return await retryLocked(step, () =>
    live.db.withoutLimits(async session => {
      await session.query('begin isolation level read committed');
      // A stopped process must not hold tables for ever; how long a statement takes is another matter.
      await session.query(
        `set local statement_timeout = 0; set local lock_timeout = ${live.patience.timeoutMs}; set local idle_in_transaction_session_timeout = 10000`,
      );
      await takeTurn(session, live);
      const migration = await find(session);
      if (migration !== null) {
        ({ name } = migration);
        const run = migration.inTransaction ? runInside : runOutside;
        await run(live, session, migration);
        await log(session, migration);
      }
      await session.query('commit');
      return migration;
    }),
  );
}

/**
 * Asks again and again instead of waiting in one statement: that would hold a snapshot, and an index that is built
 * concurrently waits for the end of all snapshots. So does a statement with parameters, until the next one.
 */
async function takeTurn(session: SqlRunner, { turnMs, watch }: LiveMigration): Promise<void> {
  const startedMs = systemClock.monotonic();
  for (let asked = 0; ; asked++) {
    const [row] = await session.query(
      `select pg_try_advisory_xact_lock(${MIGRATION_LOCK}) as taken`,
    );
    if (row?.['taken'] === true) return;
    if (systemClock.monotonic() - startedMs >= turnMs) throw turnOfAnother(turnMs);
    if (asked === 5) watch.report('waits for another process that migrates this database');
    await sleep(systemClock, ASK_AGAIN_MS);
  }
}

async function runInside(
  live: LiveMigration,
  session: SqlRunner,
  migration: Migration,
): Promise<void> {
  for (const step of migration.statements.keys()) await runWatched(live, session, migration, step);
}

/**
 * Each statement commits by itself, on a connection of its own; the transaction of `session` only keeps the lock, without
 * a snapshot. Neither of these statements keeps writers waiting, so it waits for its own locks as long as it must.
 */
async function runOutside(
  live: LiveMigration,
  session: SqlRunner,
  migration: Migration,
): Promise<void> {
  await session.query('set local idle_in_transaction_session_timeout = 0');
  await live.db.withoutLimits(async outside => {
    for (const [step, statement] of migration.statements.entries()) {
      const index = /^create (?:unique )?index concurrently (\S+)/.exec(statement)?.[1];
      const isThere = index !== undefined && (await makeWay(live, outside, index));
      if (!isThere) await runWatched(live, outside, migration, step);
    }
  });
}

/** Whether the index is there and whole. What a killed process left is dropped; what it is still building is awaited. */
async function makeWay(
  { db, watch }: LiveMigration,
  outside: SqlRunner,
  index: string,
): Promise<boolean> {
  const ask = async (): Promise<SqlRow | undefined> => (await db.query(indexState(index)))[0];
  let found = await ask();
  for (let asked = 0; typeof found?.['builder'] === 'number'; asked++) {
    if (asked % 25 === 0)
      watch.report(`waits for pid ${found['builder']}, which still builds ${index}`);
    await sleep(systemClock, ASK_AGAIN_MS);
    found = await ask();
  }
  if (found === undefined) return false;
  if (found['is_valid'] === true) return true;
  watch.report(`drops ${index}, which was not built to its end`);
  await outside.query(`drop index concurrently if exists ${index}`);
  return false;
}

/** The server goes on building when the client has been killed. The name is in the text, where a schema is put before it. */
const indexState = (index: string): string => `select i.indisvalid as is_valid, p.pid as builder
  from pg_index i left join pg_stat_progress_create_index p on p.index_relid = i.indexrelid
  where i.indexrelid = to_regclass('${index}')`;

async function runWatched(
  { db, watch }: LiveMigration,
  session: SqlRunner,
  { name, statements }: Migration,
  step: number,
): Promise<void> {
  const statement = statements[step] ?? '';
  const label = `${name}, statement ${step + 1} of ${statements.length} (${shortened(statement)})`;
  const [own] = await session.query('select pg_backend_pid() as pid');
  const look = (): Promise<StatementLook> => lookAt(db, own?.['pid'] as number);
  await watch.during(label, look, () => session.query(statement));
}

const LOOK = `select
  array(select format('pid %s (%s, transaction open for %s s): %s', a.pid, coalesce(a.state, 'unknown'),
      round(extract(epoch from clock_timestamp() - a.xact_start)), left(regexp_replace(a.query, '\\s+', ' ', 'g'), 100))
    from pg_stat_activity a where a.pid = any(pg_blocking_pids($1)) order by a.xact_start)::text[] as blockers,
  (select format('%s, %s%%', p.phase, 100 * p.blocks_done / p.blocks_total)
    from pg_stat_progress_create_index p where p.pid = $1 and p.blocks_total > 0) as progress`;

async function lookAt(db: SqlRunner, pid: number): Promise<StatementLook> {
  const [row] = await db.query(
    `select to_json(blockers)::text as blockers, progress from (${LOOK}) l`,
    [pid],
  );
  return {
    blockers: JSON.parse((row?.['blockers'] as string | undefined) ?? '[]') as string[],
    progress: (row?.['progress'] as string | null | undefined) ?? null,
  };
}

function turnOfAnother(turnMs: number): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `another process has been migrating this database for ${Math.round(turnMs / 1_000)} seconds`,
    hint: 'Wait until that has ended, then run: npx outlast migrate',
    fields: {},
  });
}

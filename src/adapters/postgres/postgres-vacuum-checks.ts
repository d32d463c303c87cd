import {
  advise,
  ok,
  problem,
  spoken,
  type Check,
  type CheckLimits,
} from '../../telemetry/checkup.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Those that grow large get a threshold by count from their migration. */
const TUNED_TABLES = ['outlast_outbox', 'outlast_task'];

/** Whether dead rows are removed, and how many there are. */
export async function checkTables(
  db: SqlDatabase,
  server: SqlRow,
  limits: CheckLimits,
): Promise<readonly Check[]> {
  const rows = await db.query(SQL.doctorTables);
  return [autovacuumCheck(server, rows), deadTuplesCheck(rows, limits)];
}

function autovacuumCheck(server: SqlRow, rows: readonly SqlRow[]): Check {
  const named = (match: (options: string) => boolean): string[] =>
    rows.filter(row => match(row['options'] as string)).map(row => row['name'] as string);
  const isOn = server['autovacuum'] === 'on' && server['track_counts'] === 'on';
  const disabled = named(options => /autovacuum_enabled=(false|off|no|0)/i.test(options));
  const untuned = named(options => !options.includes('autovacuum_vacuum_threshold')).filter(name =>
    TUNED_TABLES.includes(name),
  );
  const details = { isOn, disabled, untuned };
  if (!isOn) {
    const advice = 'Set autovacuum and track_counts to on in postgresql.conf.';
    return problem('autovacuum', 'autovacuum is off on this server', advice, details);
  }
  if (disabled.length > 0) {
    const advice = disabled
      .map(name => `alter table ${name} reset (autovacuum_enabled);`)
      .join(' ');
    return problem('autovacuum', `autovacuum is off for ${disabled.join(', ')}`, advice, details);
  }
  if (untuned.length > 0) {
    const setting = 'autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000';
    const advice = untuned.map(name => `alter table ${name} set (${setting});`).join(' ');
    const message = `${untuned.join(', ')} wait for a share of the table to be dead before they are vacuumed`;
    return advise('autovacuum', message, advice, details);
  }
  return ok('autovacuum', 'autovacuum looks after the tables', details);
}

function deadTuplesCheck(rows: readonly SqlRow[], limits: CheckLimits): Check {
  const tables = rows.map(row => ({
    name: row['name'] as string,
    live: Number(row['live']),
    dead: Number(row['dead']),
    bytes: Number(row['bytes']),
    vacuumedAt: row['vacuumed'] as string | null,
  }));
  // In a large table in use a share of dead rows is normal; many dead rows beside few living ones are not.
  const bloated = tables.filter(
    ({ dead, live }) => dead > Math.max(limits.maxDeadTuples, live / 5),
  );
  const details = { tables };
  if (bloated.length === 0) return ok('bloat', 'dead rows are removed in time', details);
  const message = bloated
    .map(({ name, dead, live, bytes }) => {
      const size = `${Math.round(bytes / 1_048_576)} MiB`;
      return `${name} has ${dead} dead rows beside ${live} living ones (${size})`;
    })
    .join('; ');
  const names = bloated.map(({ name }) => name).join(', ');
  const advice = `Look for what holds vacuum back (snapshots, autovacuum), then: vacuum (analyze) ${names};`;
  return problem('bloat', message, advice, details);
}

/** What keeps vacuum from removing dead rows: a transaction may still want to read them. */
export async function checkSnapshots(
  db: SqlDatabase,
  server: SqlRow,
  limits: CheckLimits,
): Promise<readonly Check[]> {
  const rows = await db.query(SQL.doctorSnapshots, [limits.maxTransactionMs]);
  const slots = (await db.query(SQL.doctorSlots)).map(row => row['name'] as string);
  const holders = rows.map(row => ({
    kind: row['kind'] as string,
    id: row['id'] as string,
    application: row['application'] as string,
    user: row['who'] as string,
    state: row['state'] as string,
    queryStart: row['query_started'] as string | null,
    ageMs: Number(row['age_ms']),
  }));
  const details = { holders, slots, seesOthers: server['sees_others'] };
  if (holders.length + slots.length > 0) return [heldBack(holders, slots, details)];
  if (server['sees_others'] !== true) {
    const message = 'this user does not see how old the transactions of others are';
    return [advise('snapshots', message, 'Grant it the role pg_read_all_stats.', details)];
  }
  const age = spoken(limits.maxTransactionMs);
  return [ok('snapshots', `no transaction has been open for longer than ${age}`, details)];
}

interface Holder {
  readonly kind: string;
  readonly id: string;
  readonly application: string;
  readonly ageMs: number;
}

function heldBack(
  holders: readonly Holder[],
  slots: readonly string[],
  details: Check['details'],
): Check {
  const [oldest] = holders;
  if (oldest === undefined) {
    const message = `replication slots without a reader keep dead rows alive: ${slots.join(', ')}`;
    return problem('snapshots', message, 'Connect their readers, or drop the slots.', details);
  }
  const others = holders.length === 1 ? '' : ` and ${holders.length - 1} younger ones`;
  const message = `${nameOf(oldest)}${others} kept dead rows alive for ${spoken(oldest.ageMs)}`;
  const advice =
    oldest.kind === 'prepared'
      ? 'Commit or roll back the prepared transaction.'
      : `End it where it comes from, or: select pg_terminate_backend(${oldest.id});`;
  return problem('snapshots', message, advice, details);
}

function nameOf({ kind, id, application }: Holder): string {
  if (kind === 'prepared') return `the prepared transaction ${id}`;
  return `the transaction of pid ${id}${application === '' ? '' : ` (${application})`}`;
}

import {
  ok,
  problem,
  type Check,
  type CheckLimits,
  type Checkup,
} from '../../telemetry/checkup.ts';
import { isOutlastError } from '../../errors/error.ts';
import { checkChords } from '../../ledger/chord-check.ts';
import { checkObjectives } from '../../ledger/objectives-check.ts';
import { queueChecks } from '../../ledger/queue-check.ts';
import { recoveryCheck } from '../../ledger/recovery-check.ts';
import { checkRefused } from '../../ledger/refused-check.ts';
import { clockCheck, outboxChecks } from '../../outbox/outbox-checks.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import { findBadSetting, SETTING_COLUMNS } from './check-settings.ts';
import { checkSchema } from './migrate.ts';
import { PostgresLedgerReads } from './postgres-ledger-reads.ts';
import { PostgresOutboxReads } from './postgres-outbox-reads.ts';
import { postgresRefusals } from './postgres-refusals.ts';
import { checkSnapshots, checkTables } from './postgres-vacuum-checks.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

export interface PostgresCheckupOptions {
  /** PGlite: one backend in this process, so there are no other sessions to wait for and nothing to tune. */
  readonly isEmbedded: boolean;
  /** The clock of this process. */
  readonly nowMs: () => number;
}

/** Older ones lack planner or SQL features that we use. */
const OLDEST_SERVER = 130_000;

/** Checks a PostgreSQL or an embedded PGlite. */
export class PostgresCheckup implements Checkup {
  readonly #db: SqlDatabase;
  readonly #options: PostgresCheckupOptions;

  constructor(db: SqlDatabase, options: PostgresCheckupOptions) {
    this.#db = db;
    this.#options = options;
  }

  async run(limits: CheckLimits): Promise<readonly Check[]> {
    const { isEmbedded, nowMs } = this.#options;
    const beforeMs = nowMs();
    const server = (await this.#db.query(SQL.doctorServer))[0] ?? {};
    const afterMs = nowMs();
    const checks = [serverCheck(server)];
    if (!isEmbedded)
      checks.push(clockCheck(Number(server['now_ms']), { beforeMs, afterMs }, limits));
    const settings = settingsCheck((await this.#db.query(`select ${SETTING_COLUMNS}`))[0] ?? {});
    checks.push(settings);
    const schema = await this.#schema();
    if (schema !== null) checks.push(schema);
    if (schema?.status !== 'ok') return checks;
    if (!isEmbedded) {
      checks.push(...(await checkTables(this.#db, server, limits)));
      checks.push(...(await checkSnapshots(this.#db, server, limits)));
    }
    checks.push(...(await this.#outbox(limits)), ...(await this.#ledger(limits)));
    return checks;
  }

  /** Null: nothing is known under these settings. */
  async #schema(): Promise<Check | null> {
    try {
      const version = await checkSchema(this.#db);
      return ok('schema', `schema version ${version}`, { version });
    } catch (error) {
      if (isOutlastError(error, 'ERR_DATABASE_SETTING')) return null;
      if (
        !isOutlastError(error, 'ERR_SCHEMA_MISSING') &&
        !isOutlastError(error, 'ERR_SCHEMA_NEWER')
      )
        throw error;
      return problem('schema', error.message, error.hint, { code: error.code });
    }
  }

  async #outbox(limits: CheckLimits): Promise<readonly Check[]> {
    const params = [ROW_SCHEMA_VERSION, limits.maxOrphanMs];
    const row = (await this.#db.query(SQL.doctorOutbox, params))[0] ?? {};
    // One statement says how old the oldest is, to the doctor as to everybody else.
    const { oldestPendingMs } = await new PostgresOutboxReads(this.#db).sample(0);
    const figures = {
      unsupported: Number(row['unsupported']),
      orphans: Number(row['orphans']),
      relays: Number(row['relays']),
      deadLetters: Number(row['dead']),
      parked: Number(row['parked']),
      oldestPendingMs,
    };
    return outboxChecks(figures, limits);
  }

  async #ledger(limits: CheckLimits): Promise<readonly Check[]> {
    const params = [limits.maxOrphanMs, limits.maxUnreapedMs];
    const row = (await this.#db.query(SQL.doctorLedger, params))[0] ?? {};
    const lost = { what: 'tasks of lost workers', count: Number(row['orphans']) };
    const followUps = Number(row['follow_ups']);
    const reads = new PostgresLedgerReads(this.#db);
    return [
      recoveryCheck({ lost, followUps, workers: Number(row['workers']) }, limits),
      ...(await this.#queues(limits)),
      await checkRefused(postgresRefusals(this.#db), limits),
      await checkChords(reads, limits),
      await checkObjectives(reads),
    ];
  }

  async #queues(limits: CheckLimits): Promise<readonly Check[]> {
    const rows = await this.#db.query(SQL.doctorQueues, [limits.maxOrphanMs]);
    const late = rows.map(row => ({
      queue: row['queue'] as string,
      waiting: Number(row['waiting']),
      isPaused: row['paused'] === true,
    }));
    return queueChecks(late, limits);
  }
}

function settingsCheck(row: SqlRow): Check {
  const found = findBadSetting(row);
  if (found === null) return ok('settings', 'no setting is in the way');
  const { setting, value, message, hint } = found;
  return problem('settings', message, hint, { setting, value });
}

function serverCheck(row: SqlRow): Check {
  const version = row['version'] as string;
  const details = { version };
  if (Number(row['number']) >= OLDEST_SERVER) return ok('server', `PostgreSQL ${version}`, details);
  const advice = 'Upgrade to PostgreSQL 13 or newer.';
  return problem('server', `PostgreSQL ${version} is older than 13`, advice, details);
}

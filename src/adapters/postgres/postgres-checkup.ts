import {
  advise,
  ok,
  problem,
  spoken,
  type Check,
  type CheckLimits,
  type Checkup,
} from '../../admin/checkup.ts';
import { isOutlastError } from '../../errors/error.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import { checkSchema } from './migrate.ts';
import { checkSnapshots, checkTables } from './postgres-vacuum-checks.ts';
import { readNumber } from './postgres-rows.ts';
import type { SqlDatabase, SqlRow } from './sql-database.ts';
import { SQL } from './sql.generated.ts';

export interface PostgresCheckupOptions {
  /** PGlite: one backend in this process, so there is nobody to wait for and nothing to tune. */
  readonly isEmbedded: boolean;
  /** The clock of this process. */
  readonly nowMs: () => number;
}

/** Beyond this the planner or a feature we use is missing. */
const OLDEST_SERVER = 130_000;

/** How a PostgreSQL or an embedded PGlite is. */
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
    if (!isEmbedded) checks.push(clockCheck(server, beforeMs, afterMs, limits));
    const schema = await this.#schema();
    checks.push(schema);
    if (schema.status === 'problem') return checks;
    if (!isEmbedded) {
      checks.push(...(await checkTables(this.#db, server, limits)));
      checks.push(...(await checkSnapshots(this.#db, server, limits)));
    }
    checks.push(...(await this.#outbox(limits)), ...(await this.#ledger(limits)));
    return checks;
  }

  async #schema(): Promise<Check> {
    try {
      const version = await checkSchema(this.#db);
      return ok('schema', `schema version ${version}`, { version });
    } catch (error) {
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
    return [
      backlogCheck(row, limits),
      formatCheck(row),
      claimsCheck(row, limits),
      parkedCheck(row),
    ];
  }

  async #ledger(limits: CheckLimits): Promise<readonly Check[]> {
    const row = (await this.#db.query(SQL.doctorLedger, [limits.maxOrphanMs]))[0] ?? {};
    const details = { orphans: Number(row['orphans']), followUps: Number(row['follow_ups']) };
    const { orphans, followUps } = details;
    if (orphans + followUps === 0) return [ok('recovery', 'nothing waits for recovery', details)];
    const message = `${orphans} tasks of lost workers and ${followUps} follow-ups wait for longer than ${spoken(limits.maxOrphanMs)}`;
    const advice = 'Start a resurrector: npx outlast resurrector.';
    return [problem('recovery', message, advice, details)];
  }
}

function serverCheck(row: SqlRow): Check {
  const version = row['version'] as string;
  const details = { version };
  if (Number(row['number']) >= OLDEST_SERVER) return ok('server', `PostgreSQL ${version}`, details);
  const advice = 'Upgrade to PostgreSQL 13 or newer.';
  return problem('server', `PostgreSQL ${version} is older than 13`, advice, details);
}

/** The answer was made somewhere between question and reply; only what that cannot explain is skew. */
function clockCheck(row: SqlRow, beforeMs: number, afterMs: number, limits: CheckLimits): Check {
  const serverMs = Number(row['now_ms']);
  const skewMs = serverMs < beforeMs ? serverMs - beforeMs : Math.max(0, serverMs - afterMs);
  const details = { skewMs };
  if (Math.abs(skewMs) <= limits.maxClockSkewMs)
    return ok('clock', 'the clocks of this process and the database agree', details);
  const way = skewMs > 0 ? 'behind' : 'ahead of';
  const message = `the clock of this process is ${spoken(Math.abs(skewMs))} ${way} the database's`;
  const advice = '`eta` and `expires` are counted by this clock: synchronise it (NTP).';
  return problem('clock', message, advice, details);
}

function backlogCheck(row: SqlRow, limits: CheckLimits): Check {
  const oldestPendingMs = readNumber(row['oldest_ms']);
  const relays = Number(row['relays']);
  const details = { oldestPendingMs, relays, deadLetters: Number(row['dead']) };
  if (oldestPendingMs === null) return ok('backlog', 'no row is due', details);
  const message = `the oldest row has been due for ${spoken(oldestPendingMs)}`;
  if (oldestPendingMs <= limits.maxPendingMs) return ok('backlog', message, details);
  const advice = 'See that a relay runs (npx outlast relay) and what its log says.';
  return problem('backlog', `${message}; relays with a lease: ${relays}`, advice, details);
}

function formatCheck(row: SqlRow): Check {
  const unsupported = Number(row['unsupported']);
  const details = { unsupported, known: ROW_SCHEMA_VERSION };
  if (unsupported === 0) return ok('format', 'every row is in a known format', details);
  const message = `${unsupported} rows are in a format of a newer version, and no relay of this one takes them`;
  return problem('format', message, 'Start a relay of the version that wrote them.', details);
}

function claimsCheck(row: SqlRow, limits: CheckLimits): Check {
  const orphans = Number(row['orphans']);
  const details = { orphans };
  if (orphans === 0) return ok('claims', 'no claim has outlived its relay', details);
  const age = spoken(limits.maxOrphanMs);
  const message = `${orphans} rows are claimed by relays that have been gone for longer than ${age}`;
  const advice = 'Any relay gives them back with its next claim: start one (npx outlast relay).';
  return problem('claims', message, advice, details);
}

function parkedCheck(row: SqlRow): Check {
  const parked = Number(row['parked']);
  const details = { parked };
  if (parked === 0) return ok('ordering', 'no dead letter parks its key', details);
  const message = `${parked} ordering keys are parked behind a dead letter`;
  const advice = 'Retry or purge those letters: npx outlast dead-letters list.';
  return advise('ordering', message, advice, details);
}

import {
  advise,
  ok,
  problem,
  spoken,
  type Check,
  type CheckLimits,
  type Checkup,
} from '../../telemetry/checkup.ts';
import { isOutlastError } from '../../errors/error.ts';
import { clockCheck, outboxChecks } from '../../outbox/outbox-checks.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import { checkSchema } from './migrate.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { MysqlOutboxReads } from './mysql-outbox-reads.ts';
import { SQL } from './sql.generated.ts';

/** The privilege PROCESS is missing. */
const ACCESS_DENIED = 1227;

/** Checks a MySQL or MariaDB that holds an outbox. Servers without SKIP LOCKED were refused when connecting. */
export class MysqlCheckup implements Checkup {
  readonly #db: MysqlDatabase;
  readonly #nowMs: () => number;

  constructor(db: MysqlDatabase, nowMs: () => number) {
    this.#db = db;
    this.#nowMs = nowMs;
  }

  async run(limits: CheckLimits): Promise<readonly Check[]> {
    const beforeMs = this.#nowMs();
    const [server] = await this.#db.rows(SQL.doctorServer);
    const afterMs = this.#nowMs();
    const version = String(server?.['version']);
    const checks = [
      ok('server', version, { version }),
      clockCheck(Number(server?.['now_ms']), { beforeMs, afterMs }, limits),
      await this.#schema(),
    ];
    if (checks.some(({ name, status }) => name === 'schema' && status === 'problem')) return checks;
    return [...checks, await this.#transactions(limits), ...(await this.#outbox(limits))];
  }

  async #schema(): Promise<Check> {
    try {
      await checkSchema(this.#db);
      return ok('schema', 'the tables are those of this version');
    } catch (error) {
      if (
        !isOutlastError(error, 'ERR_SCHEMA_MISSING') &&
        !isOutlastError(error, 'ERR_SCHEMA_NEWER') &&
        !isOutlastError(error, 'ERR_DATABASE_SETTING')
      )
        throw error;
      return problem('schema', error.message, error.hint, { code: error.code });
    }
  }

  /** InnoDB keeps every deleted row until the oldest open snapshot is gone. */
  async #transactions(limits: CheckLimits): Promise<Check> {
    const age = spoken(limits.maxTransactionMs);
    try {
      const rows = await this.#db.rows(SQL.doctorTransactions, [limits.maxTransactionMs]);
      const holders = rows.map(row => ({ id: String(row['id']), ageMs: Number(row['age_ms']) }));
      const [oldest] = holders;
      if (oldest === undefined)
        return ok('snapshots', `no transaction has been open for longer than ${age}`, { holders });
      const message = `the transaction of thread ${oldest.id} has been open for ${spoken(oldest.ageMs)}`;
      const advice = `End it where it comes from, or: kill ${oldest.id};`;
      return problem('snapshots', message, advice, { holders });
    } catch (error) {
      if ((error as { readonly errno?: unknown } | null)?.errno !== ACCESS_DENIED) throw error;
      const message = 'this user does not see how old the transactions of others are';
      return advise('snapshots', message, 'Grant it the privilege PROCESS.', {});
    }
  }

  async #outbox(limits: CheckLimits): Promise<readonly Check[]> {
    const [row] = await this.#db.rows(SQL.doctorOutbox, [ROW_SCHEMA_VERSION, limits.maxOrphanMs]);
    const { oldestPendingMs } = await new MysqlOutboxReads(this.#db).sample(0);
    const figures = {
      unsupported: Number(row?.['unsupported']),
      orphans: Number(row?.['orphans']),
      relays: Number(row?.['relays']),
      deadLetters: Number(row?.['dead']),
      parked: Number(row?.['parked']),
      oldestPendingMs,
    };
    return outboxChecks(figures, limits);
  }
}

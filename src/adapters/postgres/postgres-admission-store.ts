import type {
  AdmissionStore,
  KeyFigures,
  PermitUse,
  Reservation,
  ReserveReply,
  ReserveRequest,
  ReservationWish,
  RateAsk,
  RateGrant,
  RateRefund,
  SweepReply,
} from '../../admission/admission-store.ts';
import { intervalUs } from '../../task/admission-rule.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Rows of each kind that one statement deletes. */
const PRUNE_LIMIT = 1_000;

/** Admission in PostgreSQL, beside the ledger. */
export class PostgresAdmissionStore implements AdmissionStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async take(asks: readonly RateAsk[]): Promise<readonly RateGrant[]> {
    if (asks.length === 0) return [];
    const rows = await this.#db.query(SQL.admissionTake, [
      asks.map(({ key }) => key),
      asks.map(({ count }) => count),
      asks.map(({ rate }) => intervalUs(rate)),
      asks.map(({ rate }) => rate.burst),
      asks.map(({ rate }) => rate.limit),
      asks.map(({ rate }) => rate.perMs),
    ]);
    return rows.map(row => ({
      granted: Number(row['granted']),
      retryAfterMs: Math.ceil(Number(row['wait_us']) / 1_000),
      mark: Number(row['tat_us']),
    }));
  }

  async refund(reservations: readonly RateRefund[]): Promise<readonly boolean[]> {
    if (reservations.length === 0) return [];
    const rows = await this.#db.query(SQL.admissionRefund, [
      reservations.map(({ key }) => key),
      reservations.map(({ rate, count }) => count * intervalUs(rate)),
      reservations.map(({ mark }) => mark),
    ]);
    return rows.map(row => row['is_refunded'] === true);
  }

  async hold(token: string, holdMs: number): Promise<void> {
    await this.#db.query(SQL.admissionHold, [token, holdMs]);
  }

  async confirm(uses: readonly PermitUse[]): Promise<readonly boolean[]> {
    if (uses.length === 0) return [];
    const given = [uses.map(({ token }) => token), uses.map(({ task }) => task)];
    const rows = await this.#db.query(SQL.admissionConfirm, given);
    return rows.map(row => row['holds'] === true);
  }

  /** Two statements: the second one's snapshot is taken when the lock is ours, so it sees every reservation. */
  async reserve({ key, limit, holders }: ReserveRequest): Promise<ReserveReply> {
    const rows = await this.#db.transaction(async tx => {
      await tx.query(SQL.admissionLock, [key, limit]);
      const runs = [holders.map(({ task }) => task), holders.map(({ run }) => run)];
      return await tx.query(SQL.admissionReserve, [key, limit, ...runs]);
    });
    return {
      isIn: rows.map(row => row['is_in'] === true),
      waiting: Number(rows[0]?.['waiting'] ?? 0),
    };
  }

  async want({ key, limit, task }: ReservationWish): Promise<boolean> {
    const rows = await this.#db.transaction(async tx => {
      await tx.query(SQL.admissionLock, [key, limit]);
      return await tx.query(SQL.admissionWant, [key, limit, task]);
    });
    return rows[0]?.['has_room'] === true;
  }

  async free(places: readonly Reservation[]): Promise<readonly string[]> {
    if (places.length === 0) return [];
    const keys = places.map(({ key }) => key);
    const runs = [places.map(({ task }) => task), places.map(({ run }) => run)];
    const rows = await this.#db.transaction(async tx => {
      await tx.query(SQL.admissionLockKeys, [keys]);
      return await tx.query(SQL.admissionFree, [keys, ...runs]);
    });
    return rows.map(row => row['task_id'] as string);
  }

  async sweep(key: string | null, limit: number): Promise<SweepReply> {
    const rows = await this.#db.query(SQL.admissionOver, [key, limit]);
    const over = rows.map(row => ({
      key: row['key'] as string,
      task: row['task_id'] as string,
      run: row['run'] as string,
    }));
    return { freed: over.length, wake: await this.free(over) };
  }

  /** Never under pressure: a database grows on its disk, and watching that is up to the operator. */
  async pressure(): Promise<null> {
    return null;
  }

  async figures(): Promise<readonly KeyFigures[]> {
    return (await this.#db.query(SQL.admissionFigures)).map(readFigures);
  }

  async prune(): Promise<void> {
    let pruned: number;
    do {
      const [row] = await this.#db.query(SQL.admissionPrune, [PRUNE_LIMIT]);
      pruned = Number(row?.['pruned']);
    } while (pruned >= PRUNE_LIMIT);
  }
}

function readFigures(row: SqlRow): KeyFigures {
  const number = (name: string): number => Number(row[name]);
  const hasRate = row['rate_limit'] !== null;
  return {
    key: row['key'] as string,
    rate: hasRate
      ? { limit: number('rate_limit'), perMs: number('per_ms'), burst: number('burst') }
      : null,
    available: hasRate ? number('available') : null,
    concurrency: row['concurrency'] as number | null,
    held: number('held'),
    waiting: number('waiting'),
    rejected: number('rejected'),
  };
}

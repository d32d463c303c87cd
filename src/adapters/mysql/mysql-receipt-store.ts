import { PARKED, type ReceiptStore, type SentRow } from '../../outbox/receipt-store.ts';
import type { MysqlDatabase, MysqlRow } from './mysql-database.ts';
import { rowNumbers } from './mysql-rows.ts';
import { SQL } from './sql.generated.ts';

export interface ReceiptHooks {
  /** Called with the number of rows of a claim that were settled. */
  readonly onSettled: (token: string, rows: number) => void;
  /** Called when a row is deleted that others of its key may have waited for. */
  readonly onOrderedGone: () => void;
}

/** Published rows in MySQL and MariaDB that wait for the end of their task. */
export class MysqlReceiptStore implements ReceiptStore {
  readonly #db: MysqlDatabase;
  readonly #hooks: ReceiptHooks;
  /** The rows with an ordering key among those taken last: a DELETE does not return them. */
  #ordered: ReadonlySet<string> = new Set();

  constructor(db: MysqlDatabase, hooks: ReceiptHooks) {
    this.#db = db;
    this.#hooks = hooks;
  }

  async markSent(token: string, rows: readonly string[], delayMs: number): Promise<number> {
    if (rows.length === 0) return 0;
    const given = [token, rowNumbers(rows), Math.round(delayMs)];
    const marked = await this.#db.change(SQL.markSent, given);
    this.#hooks.onSettled(token, rows.length);
    return marked;
  }

  async take(limit: number, leaseMs: number): Promise<readonly SentRow[]> {
    const found = await this.#db.atomically(async session => {
      const due = await session.rows(SQL.receiptTake, [limit, PARKED]);
      const rows = rowNumbers(due.map(row => String(row['row_id'])));
      if (rows.length > 0) await session.change(SQL.receiptLease, [rows, leaseMs]);
      return due;
    });
    const taken = found.map(readSentRow);
    this.#ordered = new Set(taken.filter(({ isOrdered }) => isOrdered).map(({ row }) => row));
    return taken;
  }

  async received(rows: readonly string[]): Promise<number> {
    if (rows.length === 0) return 0;
    const gone = await this.#db.change(SQL.receiptReceived, [rowNumbers(rows)]);
    if (rows.some(row => this.#ordered.has(row))) this.#hooks.onOrderedGone();
    return gone;
  }

  async later(rows: readonly string[], delayMs: number): Promise<number> {
    if (rows.length === 0) return 0;
    const given = [rowNumbers(rows), Math.round(delayMs), PARKED];
    return await this.#db.change(SQL.receiptLater, given);
  }

  async park(rows: readonly string[], delayMs: number): Promise<number> {
    if (rows.length === 0) return 0;
    const given = [rowNumbers(rows), Math.round(delayMs), PARKED];
    return await this.#db.change(SQL.receiptPark, given);
  }

  async sendAgain(rows: readonly string[], claims: number): Promise<number> {
    if (rows.length === 0) return 0;
    return await this.#db.change(SQL.receiptSendAgain, [rowNumbers(rows), claims]);
  }
}

function readSentRow(row: MysqlRow): SentRow {
  return {
    row: String(row['row_id']),
    id: row['id'] as string,
    claims: Number(row['claims']),
    ageMs: Number(row['age_ms']),
    isOrdered: Number(row['is_ordered']) === 1,
    parksKey: Number(row['parks_key']) === 1,
    isParked: Number(row['is_parked']) === 1,
  };
}

import { PARKED, type ReceiptStore, type SentRow } from '../../outbox/receipt-store.ts';
import type { MysqlDatabase, MysqlRow } from './mysql-database.ts';
import { rowNumbers } from './mysql-rows.ts';
import { SQL } from './sql.generated.ts';

/** Published rows in MySQL and MariaDB that wait for the end of their task. */
export class MysqlReceiptStore implements ReceiptStore {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async markSent(token: string, rows: readonly string[], delayMs: number): Promise<number> {
    if (rows.length === 0) return 0;
    const given = [token, rowNumbers(rows), Math.round(delayMs)];
    return await this.#db.change(SQL.markSent, given);
  }

  async take(limit: number, leaseMs: number): Promise<readonly SentRow[]> {
    const found = await this.#db.atomically(async session => {
      const due = await session.rows(SQL.receiptTake, [limit, PARKED]);
      const rows = rowNumbers(due.map(row => String(row['row_id'])));
      if (rows.length > 0) await session.change(SQL.receiptLease, [rows, leaseMs]);
      return due;
    });
    return found.map(readSentRow);
  }

  async received(rows: readonly string[]): Promise<number> {
    if (rows.length === 0) return 0;
    return await this.#db.change(SQL.receiptReceived, [rowNumbers(rows)]);
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

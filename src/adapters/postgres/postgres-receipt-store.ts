import { PARKED, type ReceiptStore, type SentRow } from '../../outbox/receipt-store.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Published rows in PostgreSQL that wait for the end of their task. */
export class PostgresReceiptStore implements ReceiptStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async markSent(token: string, rows: readonly string[], delayMs: number): Promise<number> {
    return (await this.#db.query(SQL.markSent, [token, rows, Math.round(delayMs)])).length;
  }

  async take(limit: number, leaseMs: number): Promise<readonly SentRow[]> {
    return (await this.#db.query(SQL.receiptTake, [limit, leaseMs, PARKED])).map(readSentRow);
  }

  async received(rows: readonly string[]): Promise<number> {
    return (await this.#db.query(SQL.receiptReceived, [rows])).length;
  }

  async later(rows: readonly string[], delayMs: number): Promise<number> {
    return (await this.#db.query(SQL.receiptLater, [rows, Math.round(delayMs), PARKED])).length;
  }

  async park(rows: readonly string[], delayMs: number): Promise<number> {
    return (await this.#db.query(SQL.receiptPark, [rows, Math.round(delayMs), PARKED])).length;
  }

  async sendAgain(rows: readonly string[], claims: number): Promise<number> {
    return (await this.#db.query(SQL.receiptSendAgain, [rows, claims])).length;
  }
}

function readSentRow(row: SqlRow): SentRow {
  return {
    row: row['row'] as string,
    id: row['id'] as string,
    claims: row['claims'] as number,
    ageMs: Number(row['age_ms']),
    isOrdered: row['is_ordered'] as boolean,
    parksKey: row['parks_key'] as boolean,
    isParked: row['is_parked'] as boolean,
  };
}

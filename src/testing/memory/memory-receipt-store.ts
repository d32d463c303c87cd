import { PARKED, type ReceiptStore, type SentRow } from '../../outbox/receipt-store.ts';
import type { OutboxRecord } from './memory-outbox-guards.ts';

export interface ReceiptParts {
  readonly rows: ReadonlyMap<number, OutboxRecord>;
  readonly nowMs: () => number;
  readonly ownedOf: (token: string, rows: readonly string[]) => readonly OutboxRecord[];
  readonly remove: (record: OutboxRecord) => void;
}

/** Published rows in RAM that wait for the end of their task. */
export class MemoryReceiptStore implements ReceiptStore {
  readonly #parts: ReceiptParts;

  constructor(parts: ReceiptParts) {
    this.#parts = parts;
  }

  async markSent(token: string, rows: readonly string[], delayMs: number): Promise<number> {
    const owned = this.#parts.ownedOf(token, rows);
    const nowMs = this.#parts.nowMs();
    for (const record of owned) {
      record.state = 'sent';
      record.token = '';
      record.relay = '';
      record.sentMs = nowMs;
      record.availableMs = nowMs + delayMs;
    }
    return owned.length;
  }

  async take(limit: number, leaseMs: number): Promise<readonly SentRow[]> {
    const nowMs = this.#parts.nowMs();
    const due = [...this.#parts.rows.values()]
      .filter(({ state, availableMs }) => state === 'sent' && availableMs <= nowMs)
      .toSorted((a, b) => a.availableMs - b.availableMs || a.row - b.row)
      .slice(0, limit);
    return due.map(record => {
      record.availableMs = nowMs + leaseMs;
      const isOrdered = record.orderingKey !== null;
      return {
        row: String(record.row),
        id: record.envelope.id,
        claims: record.claims,
        ageMs: nowMs - record.sentMs,
        isOrdered,
        parksKey: isOrdered && record.parksKey,
        isParked: record.lastError === PARKED,
      };
    });
  }

  async received(rows: readonly string[]): Promise<number> {
    return this.#each(rows, record => this.#parts.remove(record));
  }

  async later(rows: readonly string[], delayMs: number): Promise<number> {
    return this.#each(rows, record => {
      record.availableMs = this.#parts.nowMs() + delayMs;
      if (record.lastError === PARKED) record.lastError = null;
    });
  }

  async park(rows: readonly string[], delayMs: number): Promise<number> {
    return this.#each(rows, record => {
      record.availableMs = this.#parts.nowMs() + delayMs;
      record.lastError = PARKED;
    });
  }

  async sendAgain(rows: readonly string[], claims: number): Promise<number> {
    const isSame = (row: string): boolean => this.#parts.rows.get(Number(row))?.claims === claims;
    return this.#each(rows.filter(isSame), record => {
      record.state = 'pending';
      record.availableMs = this.#parts.nowMs();
    });
  }

  #each(rows: readonly string[], change: (record: OutboxRecord) => void): number {
    const sent = rows
      .map(row => this.#parts.rows.get(Number(row)))
      .filter(record => record?.state === 'sent');
    for (const record of sent) if (record) change(record);
    return sent.length;
  }
}

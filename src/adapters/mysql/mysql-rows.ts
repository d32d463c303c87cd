import type { HistoryEntry } from '../../ledger/dead-letter.ts';
import type { OutboxRow } from '../../outbox/outbox-store.ts';
import { toText } from '../../task/json.ts';
import type { MysqlRow } from './mysql-database.ts';

/** Numbers that may exceed 2^53 come as text. */
export function readNumber(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}

/** Rows are locked by id in rising order, so that two relays never wait for each other. */
export function rowNumbers(rows: readonly string[]): bigint[] {
  return rows.map(row => BigInt(row)).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

export function readBytes(value: unknown): Uint8Array {
  return new Uint8Array(value as Buffer);
}

export function readOptionalBytes(value: unknown): Uint8Array | null {
  return value === null || value === undefined ? null : readBytes(value);
}

/** Bytes of a user's key, as text. */
export function readKey(value: unknown): string | null {
  return value === null || value === undefined ? null : toText(value as Buffer);
}

export function readInstant(ms: unknown): string {
  return new Date(Number(ms)).toISOString();
}

/** A row of `claim.sql`, which includes how often it was claimed before. */
export function readOutboxRow(row: MysqlRow): OutboxRow {
  return {
    row: String(row['row_id']),
    retries: Number(row['retries']),
    isFirstClaim: Number(row['claims']) === 0,
    dueMs: Math.max(0, Number(row['due_ms'])),
    envelope: {
      id: row['id'] as string,
      name: row['name'] as string,
      queue: row['queue'] as string,
      priority: Number(row['priority']),
      version: Number(row['payload_version']),
      body: readBytes(row['body']),
      options: readBytes(row['options']),
      digest: row['digest'] as string,
      etaMs: readNumber(row['eta_ms']),
      expiresMs: readNumber(row['expires_ms']),
    },
  };
}

export function readHistory(value: unknown): readonly HistoryEntry[] {
  const lines = toText(readBytes(value))
    .split('\n')
    .filter(line => line !== '');
  return lines.map(line => JSON.parse(line) as HistoryEntry);
}

import type { ErrorRecord, Outcome } from '../../ledger/ledger.ts';
import { readErrorRecord } from '../../ledger/read-entry.ts';
import type { Envelope } from '../../task/envelope.ts';
import { toBytes, toText } from '../../task/json.ts';
import type { SqlParam, SqlRow } from '../sql/sql-database.ts';

/** The columns of an envelope in the order `unnest` of park, begin and bury expects them. */
export function taskColumns(envelopes: readonly Envelope[]): SqlParam[] {
  return [
    envelopes.map(envelope => envelope.id),
    envelopes.map(envelope => envelope.name),
    envelopes.map(envelope => envelope.queue),
    envelopes.map(envelope => envelope.priority),
    envelopes.map(envelope => envelope.version),
    envelopes.map(envelope => envelope.body),
    envelopes.map(envelope => envelope.options),
    envelopes.map(envelope => envelope.digest),
    envelopes.map(envelope => envelope.etaMs),
    envelopes.map(envelope => envelope.expiresMs),
  ];
}

/** Reads an envelope from a row of the ledger, or of the outbox under the same names. */
export function readEnvelope(row: SqlRow): Envelope {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    queue: row['queue'] as string,
    priority: row['priority'] as number,
    version: row['payload_version'] as number,
    body: row['body'] as Uint8Array,
    options: row['options'] as Uint8Array,
    digest: row['digest'] as string,
    etaMs: readNumber(row['eta_ms']),
    expiresMs: readNumber(row['expires_ms']),
  };
}

/** Numbers that may exceed 2^31 travel as text. */
export function readNumber(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}

export function encodeError(error: ErrorRecord): Uint8Array {
  return toBytes(JSON.stringify(error));
}

export function decodeError(bytes: Uint8Array | null): ErrorRecord | null {
  return bytes === null ? null : readErrorRecord(toText(bytes));
}

export interface OutcomeColumns {
  readonly ending: 'done' | 'discarded';
  readonly result: Uint8Array | null;
  readonly error: Uint8Array | null;
}

export function encodeOutcome(outcome: Outcome): OutcomeColumns {
  return outcome.kind === 'done'
    ? { ending: 'done', result: outcome.result, error: null }
    : {
        ending: 'discarded',
        result: null,
        error: encodeError({ type: 'discarded', message: outcome.why, traceback: '' }),
      };
}

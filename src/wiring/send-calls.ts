import { fromDatabase } from '../adapters/postgres/sql-transaction.ts';
import type { LimitBook } from '../admission/limits.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { Producer } from '../outbox/producer.ts';
import { systemRandom } from '../runtime/random.ts';
import { systemClock } from '../runtime/clock.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Call } from '../task/define-task.ts';
import type { Keyring } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';
import type { OutboxApart } from './stores.ts';
import { writerOf } from './writer-of.ts';

export interface SendSettings {
  readonly maxPayloadBytes: number;
  readonly redact: Redact | null;
  readonly book: LimitBook;
  readonly keyring: Keyring;
}

/** Sends calls through the outbox in a transaction of their own: for commands, which have no transaction to join. */
export async function sendCalls(
  { db, dialect }: Pick<OutboxApart, 'db' | 'dialect'>,
  calls: readonly Call[],
  { maxPayloadBytes, redact, book, keyring }: SendSettings,
): Promise<readonly SentCall[]> {
  const adapter = fromDatabase(() => Promise.resolve(db), dialect);
  const producer = new Producer({
    adapter,
    writer: writerOf(adapter),
    // Nothing is excluded, so nothing goes past the outbox.
    broker: () => Promise.reject(new Error('not asked for')),
    admission: () => Promise.reject(new Error('not asked for')),
    book,
    random: systemRandom,
    clock: systemClock,
    log: silentLogger,
    strict: true,
    excludeTasks: [],
    maxPayloadBytes,
    redact,
    keyring,
    // A command sends lone tasks.
    chordQueue: null,
    notesChords: false,
    parent: () => null,
  });
  return await adapter.transaction(tx => producer.send(tx, calls));
}

import type { LifeState } from '../result/result-store.ts';
import type { EventSink, Where } from '../telemetry/events.ts';
import { hash } from 'node:crypto';
import { digestOf, sized } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import type { BuryItem } from './ledger.ts';

/** The cursor is `next` of the page before; null starts at the beginning. */
export interface PageRequest {
  readonly limit: number;
  readonly cursor: string | null;
}

export interface LetterPageRequest extends PageRequest {
  /** By time of death. */
  readonly order: 'newest' | 'oldest';
  /** A glob with `*` and `?`; null: every task. */
  readonly taskName: string | null;
}

export interface Failing {
  readonly name: string;
  readonly failures: number;
}

/** A dead letter as a list shows it. */
export interface DeadLetterSummary {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly where: Where;
  readonly reason: string;
  readonly error: string;
  /** ISO 8601 in UTC, as precise as the store's clock: the cursor is made of it. */
  readonly deadAt: string;
  readonly version: number;
  readonly createdAt: string;
  readonly tenant: string | null;
  /** Of a row that could not be published; workers do not know it. */
  readonly orderingKey: string | null;
}

/** One page of dead letters. */
export interface DeadLetterPage {
  readonly items: readonly DeadLetterSummary[];
  readonly next: string | null;
}

/** A dead letter with its payload and its history. */
export interface DeadLetterDetails extends DeadLetterSummary {
  /** After this instant it cannot be retried any more. */
  readonly expiresAt: string | null;
  /** True: body and options are the redacted copies; the original is kept for a retry. */
  readonly isRedacted: boolean;
  /** The bytes as they came. */
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly history: readonly HistoryEntry[];
}

/** One attempt: when, where, and how it ended. */
export interface HistoryEntry {
  readonly at: string;
  readonly step: string;
  readonly epoch: number;
  readonly worker?: string;
  readonly error?: { readonly type: string; readonly message: string; readonly traceback: string };
}

/** What the ledger knows about a task. */
export interface TaskDetails {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: LifeState;
  readonly epoch: number;
  readonly failures: number;
  readonly crashes: number;
  readonly createdAt: string;
  readonly history: readonly HistoryEntry[];
}

/** The position of a letter in a list: by time of death, then by id, byte by byte, in every store. */
export interface LetterPosition {
  readonly deadAt: string;
  readonly id: string;
}

/** Where a list goes on after this letter. It is made of the letter alone, so that one cursor serves two stores. */
export function cursorAfter({ deadAt, id }: LetterPosition): string {
  return `${deadAt} ${id}`;
}

export function readCursor(cursor: string): LetterPosition {
  const at = cursor.indexOf(' ');
  return { deadAt: cursor.slice(0, at), id: cursor.slice(at + 1) };
}

/** Below zero: `a` died before `b`. */
export function compareLetters(a: LetterPosition, b: LetterPosition): number {
  const [before, after] = [digitsOf(a), digitsOf(b)];
  if (before !== after) return before < after ? -1 : 1;
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1;
}

/** Stores write instants with three or six digits: `…00.500Z` and `…00.500000Z` are equal. */
const digitsOf = ({ deadAt }: LetterPosition): string => deadAt.replace('Z', '').padEnd(26, '0');

/**
 * Dead letters of messages that must not keep their own id: refused ones, which would take it from the task it belongs to,
 * and those with the id of another task. Such a letter's id is the original one plus a hash over the rest; the digest still
 * covers the original id, so the message can be restored.
 */
const BESIDE = /^(.+)#([0-9a-f]{16}|[0-9a-f]{32})$/s;
const HASH_CHARS = 32;

/** The same message has one letter, however often it comes. */
export function letterIdOf({ id, queue, digest, options }: Envelope): string {
  const rest = Buffer.from(options).toString('latin1');
  return `${id}#${hash('sha256', sized(queue) + sized(digest) + rest).slice(0, HASH_CHARS)}`;
}

export function letterBeside(envelope: Envelope, reason: string, message: string): BuryItem {
  return {
    kind: 'message',
    envelope: { ...envelope, id: letterIdOf(envelope) },
    reason,
    error: { type: reason, message, traceback: '' },
  };
}

export interface LetterBeside {
  /** The original message. */
  readonly message: Envelope;
  /** The ledger itself made the letter, and would give another copy of the message the same id. */
  readonly isOfLedger: boolean;
}

/** The message inside a revived letter; null: it is any other task. Cheap, because every run is checked. */
export function readLetterBeside(envelope: Envelope): LetterBeside | null {
  if (!envelope.id.includes('#')) return null;
  const [, id, hex] = BESIDE.exec(envelope.id) ?? [];
  if (id === undefined || hex === undefined) return null;
  const message = { ...envelope, id };
  if (digestOf(message) !== envelope.digest) return null;
  return { message, isOfLedger: hex.length < HASH_CHARS };
}

/** The message that a letter was made of, for brokers, which know no id of a letter. Any other task as it is. */
export const asItCame = (envelope: Envelope): Envelope =>
  readLetterBeside(envelope)?.message ?? envelope;

/** Emits that messages which never became a run are dead letters now. Runs are reported by their worker. */
export function reportBuried(items: readonly BuryItem[], emit: EventSink): void {
  for (const item of items) {
    if (item.kind !== 'message') continue;
    const { id, name, queue } = item.envelope;
    const { type, message } = item.error;
    const error = { type, message };
    emit('task:dead-lettered', { id, name, queue, where: 'worker', reason: item.reason, error });
  }
}

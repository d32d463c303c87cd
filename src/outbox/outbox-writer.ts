import type { ChordNote } from '../task/chord-link.ts';
import type { Envelope } from '../task/envelope.ts';
import type { WireCall } from '../task/input.ts';
import { toBytes } from '../task/json.ts';

/** Newest format of an outbox row that we know; a relay leaves newer rows alone. */
export const ROW_SCHEMA_VERSION = 2;

/** Rows with an ordering key are of a format of their own: a relay that knows no order must not touch them. */
export const rowVersionOf = (task: NewTask): number => (task.orderingKey === null ? 1 : 2);

/** A task about to be written: what travels, in texts, and what only the outbox needs. */
export interface NewTask extends Omit<Envelope, 'body' | 'options'> {
  readonly call: WireCall;
  /** The JSON text of `EnvelopeOptions`. */
  readonly settings: string;
  /** The third part of its body, as JSON text: what follows it. */
  readonly embed: string;
  /** True: the id was drawn for this send, so that nobody else can have it. */
  readonly isIdDrawn: boolean;
  readonly idempotencyKey: string | null;
  /** What a key stands for; empty without one. */
  readonly fingerprint: string;
  /** Rows with the same key are published in commit order, one at a time. */
  readonly orderingKey: string | null;
  /** True: a row of this key that becomes a dead letter holds back those behind it. */
  readonly parksKey: boolean;
  /** What people may see instead of the arguments; null: the arguments themselves. */
  readonly redacted: RedactedCopy | null;
}

/** The text of a body, as Celery writes it. */
export const bodyOf = ({ args, kwargs }: WireCall, embed: string): string =>
  `[${args},${kwargs},${embed}]`;

/** What a broker is given. The outbox makes the same of a row. */
export function envelopeOf(task: NewTask): Envelope {
  const { id, name, queue, priority, version, digest, etaMs, expiresMs } = task;
  const body = toBytes(bodyOf(task.call, task.embed));
  const options = toBytes(task.settings);
  return { id, name, queue, priority, version, body, options, digest, etaMs, expiresMs };
}

/** A body as people may see it, in JSON texts. It also travels in the envelope's options. */
export interface RedactedCopy extends WireCall {
  readonly embed: string;
}

/** The caller's side of the outbox: writes tasks inside the caller's own open transaction. */
export interface OutboxWriter<Tx> {
  /** One statement per thousand tasks; one answer for each, in order. */
  write(tx: Tx, tasks: readonly NewTask[]): Promise<readonly WriteAnswer[]>;
  /** Writes down that these chords are open; missing where the ledger cannot be in the same database. */
  noteChords?(tx: Tx, chords: readonly ChordNote[]): Promise<void>;
}

/**
 * `new`: written. `earlier`: the same task was written before, under this id. `key-mismatch`: the key belongs to a
 * send with other input. `id-mismatch`: the id belongs to a task with other input.
 */
export type WriteAnswer =
  | { readonly kind: 'new' }
  | { readonly kind: 'earlier'; readonly id: string }
  | { readonly kind: 'key-mismatch' }
  | { readonly kind: 'id-mismatch' };

import type { ChordNote } from '../task/chord-link.ts';
import type { Envelope } from '../task/envelope.ts';
import type { WireCall } from '../task/input.ts';
import { toBytes } from '../task/json.ts';

/** Newest format of an outbox row that we know; a relay leaves newer rows alone. */
export const ROW_SCHEMA_VERSION = 2;

/** No relay of any version takes such a row: a test kit takes its own by their ids. */
const TEST_ROW_VERSION = 32_000;

/** Rows with an ordering key have a separate format: a relay that knows no order must not touch them. */
export function rowVersionOf(task: NewTask): number {
  if (task.isForTest === true) return TEST_ROW_VERSION;
  return task.orderingKey === null ? 1 : 2;
}

/** A task about to be written: what is sent, as texts, and what only the outbox needs. */
export interface NewTask extends Omit<Envelope, 'body' | 'options'> {
  readonly call: WireCall;
  /** The JSON text of `EnvelopeOptions`. */
  readonly settings: string;
  /** The third part of its body, as JSON text: what follows it. */
  readonly embed: string;
  /** True: the id was drawn for this send, so that no other task can have it. */
  readonly isIdDrawn: boolean;
  readonly idempotencyKey: string | null;
  /** Identifies the input behind a key; empty without one. */
  readonly fingerprint: string;
  /** Rows with the same key are published in commit order, one at a time. */
  readonly orderingKey: string | null;
  /** True: a row of this key that becomes a dead letter holds back the rows behind it. */
  readonly parksKey: boolean;
  /** What operators see instead of the arguments; null: the arguments themselves. */
  readonly redacted: RedactedCopy | null;
  /** It is written by a test kit, for that kit alone. */
  readonly isForTest?: true;
}

/** The text of a body, as Celery writes it. */
export const bodyOf = ({ args, kwargs }: WireCall, embed: string): string =>
  `[${args},${kwargs},${embed}]`;

/** The envelope for a broker. The outbox builds the same from a row. */
export function envelopeOf(task: NewTask): Envelope {
  const { id, name, queue, priority, version, digest, etaMs, expiresMs } = task;
  const body = toBytes(bodyOf(task.call, task.embed));
  const options = toBytes(task.settings);
  return { id, name, queue, priority, version, body, options, digest, etaMs, expiresMs };
}

/** A body as operators may see it, in JSON texts. It is also sent in the envelope's options. */
export interface RedactedCopy extends WireCall {
  readonly embed: string;
}

/** The caller's side of the outbox: writes tasks inside the caller's own open transaction. */
export interface OutboxWriter<Tx> {
  /**
   * One statement per thousand tasks; one answer for each, in order. Nothing is written before `ready`, but the proof that a
   * transaction is open begins at once: whatever the caller runs next comes after it.
   */
  write(
    tx: Tx,
    tasks: readonly NewTask[],
    ready?: Promise<void> | null,
  ): Promise<readonly WriteAnswer[]>;
  /** Asks the server, with two statements, whether this is one session in one open transaction. */
  isInTransaction(tx: Tx): Promise<boolean>;
  /**
   * Cancels a task that this open transaction has written: any other session would wait for the end of it. Missing if tasks are
   * not written into a ledger.
   */
  cancel?(tx: Tx, id: string): Promise<void>;
  /** Records that these chords are open; missing if the ledger cannot be in the same database. */
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

/**
 * The tasks in the order in which their rows are locked. Another transaction may want the same key or id if the caller
 * chose it: two that lock them in different orders would deadlock. So these are sorted, among themselves; all others
 * keep their positions, and so do tasks with an ordering key, whose lock comes before and whose order is guaranteed.
 */
export function inLockOrder(tasks: readonly NewTask[]): readonly NewTask[] {
  const chosen = [...tasks.entries()].filter(([, task]) => isWantedByOthers(task));
  if (chosen.length < 2) return tasks;
  const sorted = chosen.map(([, task]) => task).toSorted(compareLocks);
  const ordered = [...tasks];
  for (const [nth, [index]] of chosen.entries()) ordered[index] = sorted[nth] as NewTask;
  return ordered;
}

const isWantedByOthers = (task: NewTask): boolean =>
  task.orderingKey === null && (task.idempotencyKey !== null || !task.isIdDrawn);

/**
 * Keys before ids, as one statement locks them; both by their bytes, as a database compares them without a collation. Of
 * tasks with one key the first gets it, so these stay in their order.
 */
function compareLocks(a: NewTask, b: NewTask): number {
  if (a.idempotencyKey !== null && b.idempotencyKey !== null)
    return compareBytes(a.idempotencyKey, b.idempotencyKey);
  if (a.idempotencyKey !== b.idempotencyKey) return a.idempotencyKey === null ? 1 : -1;
  return compareBytes(a.id, b.id);
}

const compareBytes = (a: string, b: string): number =>
  a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));

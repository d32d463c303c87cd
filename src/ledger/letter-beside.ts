import { hash } from 'node:crypto';
import { digestOf, sized } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import type { BuryItem } from './ledger.ts';

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

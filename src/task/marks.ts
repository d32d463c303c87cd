import type { EnvelopeOptions } from './envelope.ts';
import { EMBED } from './signature.ts';

/**
 * Texts that TypeScript, SQL and Lua must write alike. This is their only definition: `scripts/embed-assets.mjs` puts them
 * into the .sql files, for `:'mark_limited'`, and into the .lua files, for `MARK_LIMITED`.
 */

/** An option as it is encoded; without a value it matches any. Within a user's value the quotes would be escaped. */
function encoded<K extends keyof EnvelopeOptions>(key: K, value?: EnvelopeOptions[K]): string {
  return `"${key}":${value === undefined ? '' : JSON.stringify(value)}`;
}

/** Options that are searched for in the bytes of an envelope: most have none of them, and need not be parsed for that. */
export const MARKS: Readonly<
  Record<
    'limited' | 'receipt' | 'unkept' | 'replyTo' | 'exchange' | 'admission' | 'signature' | 'path',
    string
  >
> = Object.freeze({
  /** It must pass a rate before it is published. */
  limited: encoded('limited', true),
  /** Its row stays in the outbox until the task is over. */
  receipt: encoded('receipt', true),
  /** Its result is not kept. */
  unkept: encoded('keepResult', false),
  /** Its sender waits for an answer. */
  replyTo: encoded('replyTo'),
  /** It goes to its own exchange. */
  exchange: encoded('exchange'),
  /** Its contract limits it. */
  admission: encoded('admission'),
  /** The holder of a key has sent it. */
  signature: `${encoded('signature')}"`,
  /** When a relay claimed and published it. */
  path: `${encoded('path')}"`,
});

/** Whether these options have the mark. */
export function hasMark(options: Uint8Array, mark: string): boolean {
  if (options.length < mark.length) return false;
  return Buffer.from(options.buffer, options.byteOffset, options.length).includes(mark);
}

/** The last part of the body of a task without follow-ups. */
export const NOTHING_FOLLOWS: string = EMBED;

/** Why a task with a known id and other bytes is dead. */
export const DIGEST_CONFLICT = {
  type: 'ERR_DIGEST',
  message: 'another task has this id with other bytes',
  traceback: '',
} as const;

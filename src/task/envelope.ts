import type { Rate } from './admission-rule.ts';
import type { TravellingOptions } from './options.generated.ts';

/**
 * A task on its way: what is committed, moved and run. Body and options are bytes and are never
 * encoded again on the way, so a digest over them holds from commit to handler.
 */
export interface Envelope {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  /** 0 to 9; higher runs first. */
  readonly priority: number;
  /** Version of the payload, raised by the contract when its input changes shape. */
  readonly version: number;
  /** Celery's protocol 2 body: the JSON text of `[args, kwargs, embed]`. */
  readonly body: Uint8Array;
  /** The JSON text of `EnvelopeOptions`. */
  readonly options: Uint8Array;
  /** SHA-256 over name, id, version and body, as hexadecimal text. */
  readonly digest: string;
  /** Not begun before this wall time. */
  readonly etaMs: number | null;
  /** Not begun after this wall time: `expires`, or the deadline if that comes first. */
  readonly expiresMs: number | null;
}

/** A task's own limits, with its key. */
export interface OwnAdmission {
  /** Left out: the whole task has one key. */
  readonly key?: string;
  readonly rate?: Rate;
  readonly concurrency?: number;
}

/** How many parts a chord has. */
export interface ChordSize {
  readonly groupId: string;
  readonly size: number;
}

/** How often and for how long a task was set aside, by workers that could not run it. */
export interface Refused {
  readonly times: number;
  readonly waitedMs: number;
  /** The first few of them. */
  readonly by: readonly string[];
}

/** Everything about a task that is neither its identity nor its arguments. */
export interface EnvelopeOptions extends TravellingOptions {
  /** Headers of the user, handed to the handler. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Those that are JSON: Python gave a step another value than a text, and gets that again. */
  readonly jsonHeaders?: readonly string[];
  /** Milliseconds; travels as Celery's time limits. */
  readonly timeoutMs?: number;
  readonly softTimeoutMs?: number;
  /** Aborted after this wall time. */
  readonly deadlineMs?: number;
  /** False: the handler's value is not kept. */
  readonly keepResult?: boolean;
  readonly rootId?: string;
  readonly parentId?: string;
  /** The group, or the header of a chord, that it belongs to, and its index there. */
  readonly groupId?: string;
  readonly groupIndex?: number;
  /** Chords that Celery's result backend must know before this is sent; it does not travel. */
  readonly announced?: readonly ChordSize[];
  /** Another name for logs. */
  readonly shadow?: string;
  /** Celery's stamps: labels by name, handed on with the task. */
  readonly stamps?: Readonly<Record<string, unknown>>;
  /** The exchange it is sent to, instead of to its queue: nothing is declared for it. */
  readonly exchange?: string;
  readonly routingKey?: string;
  readonly replyTo?: string;
  /** @default the task's id */
  readonly correlationId?: string;
  /** The admission rule of the contract, for processes that do not have the contract. */
  readonly admission?: OwnAdmission;
  /** Looked for in the bytes (`MARKS`): it must pass a rate before it is published. */
  readonly limited?: true;
  /** Looked for in the bytes (`MARKS`): its row stays in the outbox until the task is over. */
  readonly receipt?: true;
  /** A permit that was obtained before. */
  readonly permit?: string;
  /** Workers that could not run it, before the broker had it this time. */
  readonly refused?: Refused;
  /** Headers of another program's message, unchanged: it gets them again if it goes back to the broker. */
  readonly wire?: Readonly<Record<string, unknown>>;
  /** For people: when a relay had claimed its row and when it published it, in milliseconds, with a dot between. */
  readonly path?: string;
  /** Proves that the holder of a key has sent it: see `Keyring`. */
  readonly signature?: string;
  /** For a dead letter: the message was too large, and its body is only the first of its bytes. */
  readonly cut?: { readonly bytes: number; readonly sha256: string };
  /** JSON texts that people see instead of the arguments and of those of its follow-ups, wherever the task is. */
  readonly redacted?: { readonly args: string; readonly kwargs: string; readonly embed?: string };
}

/** The earlier of two moments; null is never. Work whose deadline has passed must not begin, as if it had expired. */
export function earliest(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}

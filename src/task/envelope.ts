import type { Rate } from './admission-rule.ts';

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
  /** Not begun after this wall time: what `expires` says, or the deadline if that comes first. */
  readonly expiresMs: number | null;
}

/** A task's own limits, with its key. */
export interface OwnAdmission {
  /** Left out: all of the task are one. */
  readonly key?: string;
  readonly rate?: Rate;
  readonly concurrency?: number;
}

/** Everything about a task that is neither its identity nor its arguments. */
export interface EnvelopeOptions {
  /** Headers of the user, handed to the handler. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds; travels as Celery's time limits. */
  readonly timeoutMs?: number;
  readonly softTimeoutMs?: number;
  /** Aborted after this wall time. */
  readonly deadlineMs?: number;
  /** False: the handler's value is not kept. */
  readonly keepResult?: boolean;
  readonly rootId?: string;
  readonly parentId?: string;
  /** The group, or the header of a chord, that it belongs to, and its place there. */
  readonly groupId?: string;
  readonly groupIndex?: number;
  /** Another name for logs. */
  readonly shadow?: string;
  /** Where the message goes, instead of to its queue: nothing is declared for it. */
  readonly exchange?: string;
  readonly routingKey?: string;
  readonly replyTo?: string;
  /** @default the task's id */
  readonly correlationId?: string;
  readonly idempotencyKey?: string;
  /** Whom the task is for. */
  readonly tenant?: string;
  /** What the contract said about admission, for those who do not have it. */
  readonly admission?: OwnAdmission;
  /** Written `"limited":true`, which statements look for: it must pass a rate before it is published. */
  readonly limited?: true;
  /** Written `"receipt":true`, which relays look for: its row stays in the outbox until the task is over. */
  readonly receipt?: true;
  /** Room that was asked for before. */
  readonly permit?: string;
  /** Proves that a holder of a key has sent it: see `Keyring`. */
  readonly signature?: string;
  /** JSON texts that people see instead of the arguments and of those of its follow-ups, wherever the task is. */
  readonly redacted?: { readonly args: string; readonly kwargs: string; readonly embed?: string };
}

/** Of two moments the first one; null is never. Work whose deadline has passed must not begin, as if it had expired. */
export function earliest(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}

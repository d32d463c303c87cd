/**
 * Who has an idempotency key, and what came of it. It lives in the store of the ledger. Every method is one atomic step,
 * is given durations and never times (only the store's clock counts), and may be repeated after a lost reply.
 *
 *   (free) ──acquire──► held by (task, epoch) ──complete──► done, with its result ──its time is over──► (free)
 *     ▲                   │    ▲
 *     └───────free────────┘    └─ acquire: the same task under a later epoch, or another instead of a holder that has ended
 *
 * Where somebody cares for effects under the key (`ttlMs`), a key that is freed is remembered for that time, with its
 * origin: the task that took it first. Whoever takes the place of another has the same origin, so that what was done
 * under it counts for all of them, until a result is forgotten.
 *
 * A key that a task holds has no time of its own: it follows its task, through retries, crashes and releases. Whoever
 * meets it held asks the ledger whether the holder still has a life before it, and takes its place if not. So nothing
 * need be told here when a task ends by the hand of a reaper or of an operator.
 */
export interface IdempotencyStore {
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  /** The result is there for `ttlMs` from now. `stale`: it is not this run's key any more; nothing was written. */
  complete(request: CompleteRequest): Promise<KeyReply>;
  /** The holder ended without a result. `stale`: it is not this run's key any more; nothing was changed. */
  free(request: FreeRequest): Promise<KeyReply>;
  /** Moves the end of a lease. False: it was over, or the key is somebody else's. */
  renew(request: RenewRequest): Promise<boolean>;
  /** For people. */
  read(key: string): Promise<KeyRecord | null>;
  /** Up to `limit` keys held by tasks that nobody has reviewed for `idleMs`; they count as reviewed now. */
  review(idleMs: number, limit: number): Promise<readonly HeldKey[]>;
  /** Forgets up to `limit` keys whose time is over. Returns how many. */
  prune(limit: number): Promise<number>;
}

/** One run of one task; of free-standing code a random name. */
export interface KeyOwner {
  readonly taskId: string;
  readonly epoch: number;
}

export interface AcquireRequest extends KeyOwner {
  readonly key: string;
  /** Of the input: the same key with another one is a mistake. */
  readonly digest: string;
  /** Takes the place of this holder, which has ended. Anybody else's key is left alone. */
  readonly insteadOf?: KeyOwner;
  /** How long its origin is remembered when its holder ends without a result. Left out: not at all. */
  readonly ttlMs?: number;
  /** For owners that no ledger knows: held no longer than this without a renewal. */
  readonly leaseMs?: number;
}

/**
 * `owned`: it is this run's, now or already; `origin` is the task that took it when it was new. `done`: its result, whoever asks. `held`: another has it; an asker that the
 * ledger knows is remembered, to be woken. `mismatch`: the key with another input; `holder` is null when that is done.
 * `stale`: a later run of the same task has it.
 */
export type AcquireReply =
  | { readonly status: 'owned'; readonly origin: string }
  | { readonly status: 'stale' }
  | { readonly status: 'done'; readonly by: string; readonly result: Uint8Array | null }
  /** `asked`: how often this task has met it held. */
  | { readonly status: 'held'; readonly holder: KeyHolder; readonly asked: number }
  | { readonly status: 'mismatch'; readonly holder: KeyHolder | null };

export interface KeyHolder extends KeyOwner {
  /** Since it became this task's. */
  readonly heldMs: number;
}

export interface CompleteRequest extends KeyOwner {
  readonly key: string;
  /** JSON text; null: there is no value. */
  readonly result: Uint8Array | null;
  readonly ttlMs: number;
}

export interface FreeRequest extends KeyOwner {
  readonly key: string;
  /** Forgets a result, and its origin, as well. */
  readonly evenDone?: boolean;
}

export interface RenewRequest extends KeyOwner {
  readonly key: string;
  readonly leaseMs: number;
}

export interface KeyReply {
  readonly status: 'ok' | 'stale';
  /** Tasks that met it held. Only a hint: they ask again by themselves. */
  readonly waiters: readonly string[];
}

export interface HeldKey extends KeyHolder {
  readonly key: string;
}

export interface KeyRecord extends KeyHolder {
  readonly key: string;
  /** `free`: anybody's, but its origin is remembered. */
  readonly state: 'held' | 'done' | 'free';
  /** The task under whose name effects of this key are kept. */
  readonly origin: string;
  readonly digest: string;
  readonly result: Uint8Array | null;
  /** Until the result or the origin is forgotten, or the lease is over; null: held by a task, for as long as that lives. */
  readonly leftMs: number | null;
  readonly waiters: readonly string[];
}

/** Tasks that are remembered for one key. All others ask again by themselves, at their slowest. */
export const MOST_WAITERS = 200;

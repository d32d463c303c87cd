import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';

/**
 * Which task holds an idempotency key, and with what outcome. It lives in the ledger's store. Every method is one atomic
 * step, is given durations and never times (only the store's clock counts), and may be repeated after a lost reply.
 *
 *   (free) ──acquire──► held by (task, epoch, run) ─complete──► done, with its result ──its time is over──► (free)
 *     ▲                   │    ▲
 *     └───────free────────┘    └─ acquire: the same task under a later epoch, or another instead of a holder that has ended
 *
 * If effects are kept under the key (`ttlMs`), a freed key is remembered for that time, with its origin: the task that
 * took it first. A task that replaces the holder has the same origin, so that what was done under it counts for all of
 * them, until a result is forgotten.
 *
 * A key that a task holds does not expire: it follows its task, through retries, crashes and releases. A task that finds
 * it held asks the ledger whether the holder can still run, and replaces it if not. So a reaper or an operator that ends a
 * task need not report that here.
 */
export interface IdempotencyStore {
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  /** Stores the result for `ttlMs` from now. `stale`: the key is no longer this run's; nothing was written. */
  complete(request: CompleteRequest): Promise<KeyReply>;
  /** The holder ended without a result. `stale`: the key is no longer this run's; nothing was changed. */
  free(request: FreeRequest): Promise<KeyReply>;
  /** Extends a lease. False: it was over, or the key belongs to another owner. */
  renew(request: RenewRequest): Promise<boolean>;
  /** For people. */
  read(key: string): Promise<KeyRecord | null>;
  /** Up to `limit` keys held by tasks that were not reviewed for `idleMs`; they count as reviewed now. */
  review(idleMs: number, limit: number): Promise<readonly HeldKey[]>;
  /** Deletes up to `limit` expired keys. Returns how many. */
  prune(limit: number): Promise<number>;
}

/** A task under one epoch; for free-standing code a random name. */
export interface KeyOwner {
  readonly taskId: string;
  readonly epoch: number;
}

/**
 * One run of one task. A store that has lost its memory may give out an epoch twice: of two runs under one epoch only the
 * one that took the key may complete it.
 */
export interface KeyRun extends KeyOwner {
  /** Empty: matches any run, for keys taken by an older version of the process. */
  readonly run: string;
}

export interface AcquireRequest extends KeyRun {
  readonly key: string;
  /** Of the input: the same key with another one is a mistake. */
  readonly digest: string;
  /** Replaces this holder, which has ended. A key of any other holder is left alone. */
  readonly insteadOf?: KeyOwner;
  /** How long its origin is remembered when its holder ends without a result. Left out: not at all. */
  readonly ttlMs?: number;
  /** For owners that no ledger knows: held no longer than this without a renewal. */
  readonly leaseMs?: number;
}

/**
 * `owned`: it is this run's, now or already; `origin` is the task that took it when it was new. `done`: its result, for
 * every caller. `held`: another task has it; a caller that the ledger knows is remembered, to be woken. `mismatch`: the
 * key with another input; `holder` is null when that is done. `stale`: another run of the same task has it, under this
 * epoch, which is not lower.
 */
export type AcquireReply =
  | { readonly status: 'owned'; readonly origin: string }
  | { readonly status: 'stale'; readonly epoch: number }
  | { readonly status: 'done'; readonly by: string; readonly result: Uint8Array | null }
  /** `asked`: how often this task has found it held. */
  | { readonly status: 'held'; readonly holder: KeyHolder; readonly asked: number }
  | { readonly status: 'mismatch'; readonly holder: KeyHolder | null };

export interface KeyHolder extends KeyOwner {
  /** Since it became this task's. */
  readonly heldMs: number;
}

export interface CompleteRequest extends KeyRun {
  readonly key: string;
  /** JSON text; null: there is no value. */
  readonly result: Uint8Array | null;
  readonly ttlMs: number;
}

export interface FreeRequest extends KeyRun {
  readonly key: string;
  /** Forgets a result, and its origin, as well. */
  readonly evenDone?: boolean;
}

export interface RenewRequest extends KeyRun {
  readonly key: string;
  readonly leaseMs: number;
}

export interface KeyReply {
  readonly status: 'ok' | 'stale';
  /** Tasks that found it held. Only a hint: they ask again by themselves. */
  readonly waiters: readonly string[];
}

export interface HeldKey extends KeyHolder, KeyRun {
  readonly key: string;
}

export interface KeyRecord extends KeyHolder, KeyRun {
  readonly key: string;
  /** `free`: any task may take it, but its origin is remembered. */
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

/** A queue created a moment ago may still be missing from a search for a task in all queues. */
const SURELY_KNOWN_MS = 10_000;

/**
 * Whether the holder of a key can still run. A holder that the ledger does not know has ended and was forgotten, unless it
 * took the key just now.
 */
export async function isAlive(
  { taskId, heldMs }: KeyHolder,
  reads: Pick<LedgerReads, 'inspect'>,
): Promise<boolean> {
  const found = await reads.inspect(taskId);
  if (found === null) return heldMs < SURELY_KNOWN_MS;
  return found.state === 'waiting' || found.state === 'running';
}

export interface OrphanDeps {
  readonly store: Pick<IdempotencyStore, 'review' | 'free'>;
  readonly reads: Pick<LedgerReads, 'inspect'>;
  readonly ledger: Pick<Ledger, 'wake'>;
}

/** A task may hold its key for long; reviewing it more often would only cost. */
const REVIEW_AFTER_MS = 3_600_000;

/**
 * Frees keys whose holder was ended by a reaper or an operator, which do not know of its key. A task that asks for such a
 * key takes it over anyway; this is for keys that no task asks for again. Returns how many were reviewed.
 */
export async function freeOrphans(deps: OrphanDeps, limit: number): Promise<number> {
  const { store, reads, ledger } = deps;
  const held = await store.review(REVIEW_AFTER_MS, limit);
  for (const { key, ...holder } of held) {
    if (await isAlive(holder, reads)) continue;
    const { taskId, epoch, run } = holder;
    const { waiters } = await store.free({ key, taskId, epoch, run });
    await ledger.wake(waiters);
  }
  return held.length;
}

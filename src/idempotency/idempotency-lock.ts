import { isUnavailable, outlastError } from '../errors/error.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import type { HedgeTimes } from '../runtime/hedged-store.ts';
import { lockKey } from '../task/call-key.ts';
import { decodeJson, encodeJson, toBytes, toText } from '../task/json.ts';
import type { IdempotencyStore, KeyRun } from './idempotency-store.ts';

/** Other callers may take the key when its owner was silent for this long. */
const LEASE_MS = 5_000;
const BEAT_MS = 1_000;
export const LOCK_TIMES: HedgeTimes = { beatMs: BEAT_MS, leaseMs: LEASE_MS };
/** An owner that cannot renew stops this long before its lease is over. */
const MARGIN_MS = 1_000;
/** Between two looks of a waiting caller. */
const SHORTEST_LOOK_MS = 50;
const LONGEST_LOOK_MS = 1_000;

export interface LockRequest<T> {
  readonly key: string;
  readonly ttlMs: number;
  /** How long to wait for another caller's answer; null: as long as it takes. */
  readonly waitMs: number | null;
  readonly fn: (signal: AbortSignal) => Promise<T> | T;
}

/** What `idempotencyLock` gives. */
export interface LockAnswer<T> {
  /** What the function has returned, as JSON carries it. */
  readonly value: T;
  /** True: the function ran for this call. False: it ran for another one, and this is the stored answer. */
  readonly ran: boolean;
}

/** The steps a lock takes. */
export type LockStore = Pick<IdempotencyStore, 'acquire' | 'renew' | 'complete' | 'free'>;

export interface LockDeps {
  readonly store: LockStore;
  readonly runtime: Pick<Runtime, 'clock' | 'random' | 'log'>;
}

/**
 * Runs `fn` once for its key, and gives its answer, as JSON carries it, to every caller that asks within `ttlMs`. A caller
 * that asks while it runs waits. If `fn` throws, the key is freed and the next caller runs it. The key is held under a
 * lease, as no ledger knows free-standing code: when it is lost, the signal fires and the call ends with `ERR_LEASE_LOST`.
 */
export async function runLocked<T>(
  request: LockRequest<T>,
  deps: LockDeps,
): Promise<LockAnswer<T>> {
  const { store, runtime } = deps;
  const key = lockKey(request.key);
  const token = runtime.random.token();
  const owner = { key, taskId: `lock:${token}`, epoch: 1, run: token };
  const startedAt = runtime.clock.monotonic();
  for (let lookMs = SHORTEST_LOOK_MS; ; lookMs = Math.min(2 * lookMs, LONGEST_LOOK_MS)) {
    const sentAt = runtime.clock.monotonic();
    const reply = await store.acquire({ ...owner, digest: '', leaseMs: LEASE_MS });
    if (reply.status === 'done') return { value: decode(reply.result) as T, ran: false };
    if (reply.status === 'owned')
      return {
        value: await new Lock(owner, sentAt, deps).run(request.fn, request.ttlMs),
        ran: true,
      };
    const leftMs = startedAt + (request.waitMs ?? Infinity) - runtime.clock.monotonic();
    if (leftMs <= 0) throw waitedTooLong(request.key);
    await sleep(runtime.clock, Math.min(lookMs, leftMs));
  }
}

interface LockOwner extends KeyRun {
  readonly key: string;
}

/** A key that is ours, renewed until its function has ended. */
class Lock {
  readonly #owner: LockOwner;
  readonly #deps: LockDeps;
  readonly #lost = new AbortController();
  /** When the last call was sent that the store has confirmed: the lease lasts at least from then. */
  #renewedAt: number;
  #isOver = false;
  #cancelBeat: () => void = () => undefined;
  #cancelWatch: () => void = () => undefined;

  constructor(owner: LockOwner, sentAt: number, deps: LockDeps) {
    this.#owner = owner;
    this.#renewedAt = sentAt;
    this.#deps = deps;
  }

  async run<T>(fn: (signal: AbortSignal) => Promise<T> | T, ttlMs: number): Promise<T> {
    this.#beat();
    this.#watch();
    try {
      const value = await fn(this.#lost.signal);
      const result = value === undefined ? null : toBytes(encodeJson(value));
      await this.#complete(result, ttlMs);
      return decode(result) as T;
    } catch (error) {
      await this.#free();
      throw error;
    } finally {
      this.#end();
    }
  }

  /** An unanswered call does not keep the next one from being sent. */
  #beat(): void {
    this.#cancelBeat = this.#deps.runtime.clock.timer(BEAT_MS, () => {
      void this.#renew();
      this.#beat();
    });
  }

  /** Counted on our own monotonic clock, from the sending of the last call that was answered. */
  #watch(): void {
    const { clock } = this.#deps.runtime;
    const leftMs = this.#renewedAt + LEASE_MS - MARGIN_MS - clock.monotonic();
    if (leftMs <= 0) return this.#lose();
    this.#cancelWatch = clock.timer(leftMs, () => this.#watch());
  }

  #end(): void {
    this.#isOver = true;
    this.#cancelBeat();
    this.#cancelWatch();
  }

  async #renew(): Promise<void> {
    const { store, runtime } = this.#deps;
    const sentAt = runtime.clock.monotonic();
    try {
      const isOurs = await store.renew({ ...this.#owner, leaseMs: LEASE_MS });
      if (isOurs) this.#renewedAt = Math.max(this.#renewedAt, sentAt);
      else if (!this.#isOver) this.#lose();
    } catch (error) {
      runtime.log.warn({ error, key: this.#owner.key }, 'a lease could not be renewed');
    }
  }

  #lose(): void {
    this.#end();
    this.#lost.abort(leaseLost(this.#owner.key));
  }

  /** Repeated while the lease lasts: no other caller can take the key until then. */
  async #complete(result: Uint8Array | null, ttlMs: number): Promise<void> {
    const { store, runtime } = this.#deps;
    for (;;) {
      if (this.#lost.signal.aborted) throw leaseLost(this.#owner.key);
      try {
        const { status } = await store.complete({ ...this.#owner, result, ttlMs });
        if (status === 'stale') throw leaseLost(this.#owner.key);
        return;
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        await sleep(runtime.clock, SHORTEST_LOOK_MS, this.#lost.signal);
      }
    }
  }

  /** If that fails too, the key is free when the lease is over. */
  async #free(): Promise<void> {
    const { store, runtime } = this.#deps;
    this.#end();
    await store.free(this.#owner).catch((error: unknown) => {
      runtime.log.warn({ error, key: this.#owner.key }, 'a key was not freed; its lease will end');
    });
  }
}

function decode(result: Uint8Array | null): unknown {
  return result === null ? undefined : decodeJson(toText(result));
}

function waitedTooLong(key: string): Error {
  return outlastError('ERR_RESULT_TIMEOUT', {
    message: `${key} is still being worked on by another`,
    hint: 'Wait longer, or ask again later: the answer is kept.',
    fields: { id: key, state: 'held' },
  });
}

function leaseLost(key: string): Error {
  return outlastError('ERR_LEASE_LOST', {
    message: `the lease of ${key} was lost: another may be working on it by now`,
    hint: 'Heed the signal: stop, and write nothing more.',
    fields: { id: key },
  });
}

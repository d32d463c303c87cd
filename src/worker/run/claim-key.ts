import { isUnavailable } from '../../errors/error.ts';
import {
  type AcquireReply,
  type AcquireRequest,
  type IdempotencyStore,
  type KeyRun,
  isAlive,
} from '../../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../../ledger/ledger-reads.ts';
import type { BegunTask, Ledger, RunRef } from '../../ledger/ledger.ts';
import { type Runtime, sleep } from '../../runtime/runtime.ts';
import { isIntact } from '../../task/digest.ts';
import type { CallKey } from '../../task/call-key.ts';
import type { Idempotency } from '../../task/idempotency.ts';
import { toBytes, toText } from '../../task/json.ts';
import { type Keyring, NO_KEYS } from '../../task/keyring.ts';
import { readOptions } from '../../task/read-options.ts';
import { callKeyOf } from './call-key.ts';
import { errorRecord } from './error-record.ts';
import type { Handler } from '../handler.ts';
import { type TimedRun, inTime } from './outages.ts';
import { prepareInput } from './prepare-input.ts';
import type { RunLedger } from './run-scope.ts';
import { type RunStop, type Settlement, buried, wanting } from './settlement.ts';
import { type BackoffPolicy, backoffMs } from '../../runtime/backoff.ts';
import type { EffectKey } from '../effects/door.ts';

export interface KeyDeps {
  readonly store: IdempotencyStore;
  /** Reports whether the holder's task may still run. */
  readonly reads: Pick<LedgerReads, 'inspect'>;
}

export interface ClaimDeps {
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly keys: KeyDeps;
  readonly ledger: Pick<Ledger, 'wake'>;
  readonly keyring?: Keyring;
  readonly runtime: Runtime;
}

/**
 * `run`: nothing is in the way; `hold` is null for tasks that are not idempotent. `answer`: another task has the result.
 * `wait`: another task has the key. `refuse`: it can never run.
 */
export type KeyClaim =
  | { readonly kind: 'run'; readonly hold: KeyHold | null }
  | {
      readonly kind: 'answer';
      readonly settlement: Settlement;
      readonly key: string;
      readonly original: string;
    }
  | { readonly kind: 'wait' | 'refuse'; readonly settlement: Settlement };

/** Between two attempts to get a key that another task holds: a release wakes the task, the delay is the fallback. */
const SHORTEST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;
const FREE: KeyClaim = { kind: 'run', hold: null };
const LOST: KeyClaim = { kind: 'refuse', settlement: { kind: 'drop' } };

/** The run that asks for its key. */
export interface Claimant {
  readonly task: BegunTask;
  readonly stop: RunStop;
  readonly ledger: Pick<RunLedger, 'raiseEpoch'>;
}

/** Before the handler: acquires the key of this call, or decides what to do instead. No promise without a key. Never throws. */
export function claimKey(claimant: Claimant, deps: ClaimDeps): KeyClaim | Promise<KeyClaim> {
  const { task } = claimant;
  const handler = deps.handlers.get(task.envelope.name);
  const idempotent = handler?.task.contract.idempotent ?? null;
  // The run itself buries a task whose body is not what was sent, is unsigned, or cannot be read.
  if (!handler || !idempotent || !isIntact(task.envelope)) return FREE;
  if ((deps.keyring ?? NO_KEYS).refusalOf(task.envelope) !== null) return FREE;
  return claim({ ...claimant, handler }, idempotent, deps);
}

async function claim(
  run: TimedRun & Claimant,
  idempotent: Idempotency,
  deps: ClaimDeps,
): Promise<KeyClaim> {
  const { task } = run;
  const made = await inTime(makeKey(run, deps.runtime), run, deps.runtime);
  if ('kind' in made)
    return { kind: made.kind === 'release' ? 'wait' : 'refuse', settlement: made };
  try {
    return await decide(run, { call: made, idempotent }, deps);
  } catch (error) {
    if (isUnavailable(error))
      return { kind: 'wait', settlement: wanting('idempotency-keys', error) };
    const { log } = deps.runtime;
    log.error({ error, task: task.id }, 'an idempotency key cannot be had; the task is buried');
    const settlement = {
      kind: 'bury',
      reason: 'ERR_INVARIANT',
      error: errorRecord(error),
    } as const;
    return { kind: 'refuse', settlement };
  }
}

/**
 * The key of the call, or what to do without one. Such a task does not run: without a key there is no claim, and its
 * duplicates would have their effect as well.
 */
async function makeKey(
  { task, handler }: TimedRun,
  { log }: Runtime,
): Promise<CallKey | Settlement> {
  try {
    const call = await callKeyOf(task, handler);
    if (call !== null) return call;
  } catch (error) {
    const prepared = await prepareInput(task, handler);
    if ('kind' in prepared) return prepared;
    log.warn({ error, task: task.id }, 'an idempotency key cannot be made; the task is given back');
  }
  return { kind: 'release', delayMs: SHORTEST_WAIT_MS };
}

interface Asked {
  readonly call: CallKey;
  readonly idempotent: Idempotency;
}

async function decide(
  { task, handler, ledger }: TimedRun & Claimant,
  { call, idempotent }: Asked,
  deps: ClaimDeps,
): Promise<KeyClaim> {
  const { key } = call;
  let owner = { taskId: task.id, epoch: task.epoch, run: task.run };
  const { ttlMs } = idempotent;
  let reply = await acquire({ ...call, ...owner, ttlMs }, deps);
  if (reply.status === 'stale') {
    // Another run of this task has the key, under an epoch that is not lower. Only the ledger knows which is the rightful one.
    const raised = await ledger.raiseEpoch(task, reply.epoch);
    if (raised.status !== 'ok') return LOST;
    owner = { ...owner, epoch: raised.epoch };
    reply = await acquire({ ...call, ...owner, ttlMs }, deps);
  }
  switch (reply.status) {
    case 'owned':
      return {
        kind: 'run',
        hold: new KeyHold({ key, ...owner, ttlMs, origin: reply.origin }, deps),
      };
    case 'stale':
      return LOST;
    case 'done':
      return { kind: 'answer', settlement: answer(task, handler, reply), key, original: reply.by };
    case 'held':
      return wait(SHORTEST_WAIT_MS * 2 ** (Math.min(reply.asked, 10) - 1));
    case 'mismatch': {
      const message = `the idempotency key ${key} stands for another input`;
      return { kind: 'refuse', settlement: buried('ERR_IDEMPOTENCY_MISMATCH', message) };
    }
  }
}

/** Replaces a holder that has ended without releasing its key (reaped, cancelled, forgotten). */
async function acquire(request: AcquireRequest, { keys }: ClaimDeps): Promise<AcquireReply> {
  const reply = await keys.store.acquire(request);
  if (reply.status !== 'held' && reply.status !== 'mismatch') return reply;
  const { holder } = reply;
  if (holder === null || (await isAlive(holder, keys.reads))) return reply;
  const { taskId, epoch } = holder;
  return await keys.store.acquire({ ...request, insteadOf: { taskId, epoch } });
}

function wait(delayMs: number): KeyClaim {
  const settlement = { kind: 'release', delayMs: Math.min(delayMs, LONGEST_WAIT_MS) } as const;
  return { kind: 'wait', settlement };
}

/** The result of another task, used as this one's own. */
function answer(
  { envelope }: BegunTask,
  handler: Handler,
  { result }: Extract<AcquireReply, { readonly status: 'done' }>,
): Settlement {
  const options = readOptions(envelope);
  const isKept = handler.task.contract.result !== null && options.keepResult !== false;
  const outcome = { kind: 'done', result: isKept ? result : null } as const;
  return { kind: 'commit', outcome, value: result === null ? 'null' : toText(result) };
}

export interface HoldDeps {
  readonly keys: { readonly store: Pick<IdempotencyStore, 'complete' | 'free'> };
  readonly ledger: Pick<Ledger, 'wake'>;
  readonly runtime: Runtime;
}

export interface HeldBy extends KeyRun {
  readonly key: string;
  readonly ttlMs: number;
  /** The task that took the key when it was new. */
  readonly origin: string;
}

/** Between two tries of the same call. */
const RETRY: BackoffPolicy = { baseMs: 250, maxMs: 2_000, jitter: 'full' };

/**
 * The key that a run holds. The result is stored under the key before the ledger has it: a run that dies in between
 * leaves a result that the next run of the same task finds and commits. The other way round a duplicate would find a
 * holder that is done and no result, and have the effect again.
 */
export class KeyHold {
  readonly #by: HeldBy;
  readonly #deps: HoldDeps;
  #waiters: readonly string[] = [];

  constructor(by: HeldBy, deps: HoldDeps) {
    this.#by = by;
    this.#deps = deps;
  }

  /**
   * The key that effects of this run belong to: they happen once for all tasks that succeed one another under this
   * key. When a result is forgotten the key starts anew, and so do they.
   */
  get effect(): EffectKey {
    const { origin, key, ttlMs } = this.#by;
    return { key, origin, ttlMs };
  }

  /**
   * Stores the value of a run that is done. `unknown`: the store does not answer and the run was asked to stop, so it is
   * unknown whether the result is there: the run must not commit. `refused`: the store can never take it. A key that
   * another task holds by now is no obstacle: the ledger alone decides which run is the rightful one.
   */
  async complete(value: string, stop: AbortSignal): Promise<'kept' | 'unknown' | 'refused'> {
    const { keys, runtime } = this.#deps;
    for (let tries = 1; ; tries++) {
      try {
        const reply = await keys.store.complete({ ...this.#by, result: toBytes(value) });
        this.#waiters = reply.waiters;
        if (reply.status === 'stale')
          runtime.log.warn({ ...this.#by }, 'the idempotency key is not this run’s any more');
        return 'kept';
      } catch (error) {
        if (!isUnavailable(error)) {
          runtime.log.error({ error }, 'the store refuses the result of a run');
          return 'refused';
        }
        if (tries === 1) runtime.log.warn({ error }, 'a result cannot be kept; repeating it');
        if (stop.aborted) return 'unknown';
        const waitMs = backoffMs(RETRY, tries - 1, 0.5 + runtime.random.next() / 2);
        await sleep(runtime.clock, waitMs, stop);
      }
    }
  }

  /** The ledger has accepted the settlement of the run. A waiter that is not notified finds out by polling. */
  async ended(settlement: Settlement): Promise<void> {
    const { keys, ledger, runtime } = this.#deps;
    try {
      if (isOver(settlement)) {
        await runtime.faultPoint('worker.ended-not-freed');
        this.#waiters = (await keys.store.free(this.#by)).waiters;
      }
      if (this.#waiters.length > 0) await ledger.wake(this.#waiters);
    } catch (error) {
      runtime.log.warn({ error, key: this.#by.key }, 'the waiters of a key were not notified');
    }
  }
}

/** Ended without a result: the next task tries for itself. A task that comes back keeps its key. */
function isOver(settlement: Settlement): boolean {
  switch (settlement.kind) {
    case 'commit':
      return settlement.outcome.kind === 'discarded';
    case 'fail':
      return settlement.delayMs === null;
    case 'bury':
      return true;
    case 'release':
    case 'drop':
      return false;
  }
}

/**
 * Identifies one run of one task. `run` alone is not enough: tasks that were begun together share it. The epoch is not part
 * of it: a door may raise that.
 */
export const runKey = (ref: RunRef): string => `${ref.id} ${ref.run}`;

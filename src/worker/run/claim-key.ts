import { isUnavailable } from '../../errors/error.ts';
import { isAlive } from '../../idempotency/holder.ts';
import type {
  AcquireReply,
  AcquireRequest,
  IdempotencyStore,
} from '../../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../../ledger/ledger-reads.ts';
import type { BegunTask, Ledger } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { isIntact } from '../../task/digest.ts';
import type { CallKey } from '../../task/call-key.ts';
import type { Idempotency } from '../../task/idempotency.ts';
import { toText } from '../../task/json.ts';
import { NO_KEYS, type Keyring } from '../../task/keyring.ts';
import { readOptions } from '../../task/read-options.ts';
import { callKeyOf } from './call-key.ts';
import { errorRecord } from './error-record.ts';
import type { Handler } from '../handler.ts';
import { inTime, type TimedRun } from './in-time.ts';
import { KeyHold } from './key-hold.ts';
import { prepareInput } from './prepare-input.ts';
import type { RunLedger } from './run-scope.ts';
import type { RunStop } from './run-stop.ts';
import { buried, wanting, type Settlement } from './settlement.ts';

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
  readonly ledger: Pick<RunLedger, 'lift'>;
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
    const raised = await ledger.lift(task, reply.epoch);
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

import { encodeError } from '../../errors/wire-error.ts';
import type { BegunTask } from '../../ledger/ledger.ts';
import { type Runtime, sleep } from '../../runtime/runtime.ts';
import { readOptions } from '../../task/read-options.ts';
import type { EffectKey } from '../effects/door.ts';
import { hasExpired } from '../run/admit.ts';
import type { Handler } from '../handler.ts';
import { unpackError } from '../run/pack-error.ts';
import type {
  FromIsolate,
  Isolate,
  IsolateListener,
  IsolateMode,
  Isolates,
  PackedSettlement,
} from './isolate.ts';
import type { RunLedger } from '../run/run-scope.ts';
import {
  type Circumstances,
  type RunStop,
  type Settlement,
  crashed,
  failed,
  timedOut,
  wanting,
} from '../run/settlement.ts';

/** Between the signal and the kill: time to roll back, close files, and exit. */
const KILL_GRACE_MS = 500;
/** A thread in native code ends only when that code returns. Its run is settled all the same: it can write nothing more. */
const KILL_TIMEOUT_MS = 5_000;

export interface IsolateRunStart {
  readonly task: BegunTask;
  readonly handler: Handler;
  readonly mode: IsolateMode;
  readonly stop: RunStop;
  /** Where its trace is; null: nothing is traced. */
  readonly headers?: Readonly<Record<string, string>> | null;
}

export interface IsolateRunDeps {
  readonly isolates: Isolates;
  readonly ledger: RunLedger;
  readonly runtime: Runtime;
  readonly effect?: EffectKey | null;
  readonly isLeaseOver?: () => boolean;
}

/**
 * Runs one task in a separate thread or process. The isolate decides how the run ended, with the handler's own schemas
 * and its own `retryIf`; the worker decides only about isolates that do not answer: killed at a timeout is a failed attempt,
 * killed on a stop is given back or dropped, and an isolate that ended by itself is a crash of the task.
 */
export async function runInIsolate(
  start: IsolateRunStart,
  deps: IsolateRunDeps,
): Promise<Settlement> {
  const { task, stop } = start;
  const { clock } = deps.runtime;
  const askedAt = clock.monotonic();
  // A run that has not begun is given back: another worker may have an isolate for it.
  const isolate = await enter(start, deps);
  if (isolate === null) return stopped(stop);
  if ('kind' in isolate) return stop.reason === null ? isolate : stopped(stop);
  try {
    const isOver = stop.reason !== null || deps.isLeaseOver?.() === true;
    const isLate = isOver || hasExpired(task, askedAt, clock);
    return isLate ? stopped(stop) : await new IsolateRun(start, isolate, deps).run();
  } finally {
    deps.isolates.leave(isolate);
  }
}

/** An isolate that cannot be created is not the task's fault: the worker had one when it started. */
async function enter(
  { mode, stop }: IsolateRunStart,
  { isolates }: IsolateRunDeps,
): Promise<Isolate | Settlement | null> {
  try {
    return await isolates.enter(mode, stop);
  } catch (error) {
    return wanting('isolate', error);
  }
}

/** A run that ends before its handler starts: given back, unless another run is known to own the task. */
export function stopped(stop: RunStop): Settlement {
  return { kind: stop.reason === 'lost' ? 'drop' : 'release' };
}

export function circumstancesOf(task: BegunTask, { clock, random }: Runtime): Circumstances {
  const { deadlineMs } = readOptions(task.envelope);
  return {
    isPastDeadline: () => deadlineMs !== undefined && deadlineMs <= clock.now(),
    random: () => random.next(),
  };
}

/** Copies the bytes: a driver's are views into a larger buffer, and the whole buffer would be sent. */
function tight(task: BegunTask): BegunTask {
  const { envelope, checkpoint } = task;
  const [body, options] = [new Uint8Array(envelope.body), new Uint8Array(envelope.options)];
  return {
    ...task,
    envelope: { ...envelope, body, options },
    checkpoint: checkpoint === null ? null : new Uint8Array(checkpoint),
  };
}

/** A request of an isolate to the ledger, through its worker. */
type Question = Extract<FromIsolate, { readonly kind: 'checkpoint' | 'raise' }>;

/** The worker's side of one run in an isolate. */
class IsolateRun {
  readonly #start: IsolateRunStart;
  readonly #isolate: Isolate;
  readonly #deps: IsolateRunDeps;
  readonly #undo: (() => void)[] = [];
  #end: (settlement: Settlement) => void = () => undefined;
  #hasBegun = false;
  #isKilling = false;

  constructor(start: IsolateRunStart, isolate: Isolate, deps: IsolateRunDeps) {
    this.#start = start;
    this.#isolate = isolate;
    this.#deps = deps;
  }

  async run(): Promise<Settlement> {
    const { task, stop } = this.#start;
    const ending = new Promise<Settlement>(resolve => {
      this.#end = resolve;
    });
    this.#isolate.listen(message => this.#onMessage(message));
    const { headers: trace = null } = this.#start;
    const { effect = null } = this.#deps;
    this.#isolate.post({ kind: 'run', task: tight(task), effect, trace });
    this.#follow(stop.draining, () => this.#isolate.post({ kind: 'drain' }));
    const end = (): void => this.#stop();
    stop.onStop(end);
    this.#undo.push(() => stop.offStop(end));
    this.#startTimers();
    try {
      return await ending;
    } finally {
      for (const undo of this.#undo) undo();
      this.#isolate.listen(null);
    }
  }

  #follow(signal: AbortSignal, fn: () => void): void {
    if (signal.aborted) return fn();
    signal.addEventListener('abort', fn, { once: true });
    this.#undo.push(() => signal.removeEventListener('abort', fn));
  }

  #after(ms: number, fn: () => void): void {
    this.#undo.push(this.#deps.runtime.clock.timer(ms, fn));
  }

  #onMessage(message: Parameters<IsolateListener>[0]): void {
    if (this.#isKilling) return;
    switch (message.kind) {
      case 'ended':
        return this.#crash(message.how);
      case 'begun':
        this.#hasBegun = true;
        return;
      case 'checkpoint':
      case 'raise':
        return void this.#ask(message);
      case 'settled':
        return this.#end(this.#settled(message.settlement));
    }
  }

  /** The isolate's settlement, unless the worker knows better: then the run is dropped or given back. */
  #settled(packed: PackedSettlement): Settlement {
    const { stop } = this.#start;
    if (stop.reason !== null && packed.kind !== 'commit') return stopped(stop);
    return packed.kind === 'fail' ? { ...packed, cause: unpackError(packed.cause) } : packed;
  }

  async #ask(message: Question): Promise<void> {
    const { call } = message;
    const { ledger } = this.#deps;
    const { task } = this.#start;
    try {
      if (message.kind === 'raise') {
        const reply = await ledger.raiseEpoch(task, message.above);
        return this.#isolate.post({ kind: 'raised', call, reply });
      }
      const status = await ledger.checkpoint(task, message.seq, message.data);
      this.#isolate.post({ kind: 'kept', call, status });
    } catch (error) {
      this.#isolate.post({ kind: 'not-asked', call, error: encodeError(error) });
    }
  }

  #crash(how: Error): void {
    const { task, handler } = this.#start;
    this.#deps.runtime.log.warn({ task: task.id, error: how }, 'an isolate ended under its task');
    // It ended before it had received the task, so the task cannot be the cause.
    this.#end(this.#hasBegun ? crashed(handler, task, how) : wanting('isolate', how));
  }

  #stop(): void {
    const { stop } = this.#start;
    this.#isolate.post({ kind: 'stop', reason: stop.reason ?? 'release' });
    this.#after(KILL_GRACE_MS, () => void this.#kill('stopped', () => stopped(stop)));
  }

  /** The isolate has the same timers and fires `ctx.signal`; these are for isolates that ignore it. */
  #startTimers(): void {
    const { task, handler } = this.#start;
    const { clock } = this.#deps.runtime;
    const { deadlineMs, timeoutMs = task.timeoutMs } = readOptions(task.envelope);
    const expire = (ms: number, what: string): void =>
      this.#after(ms + KILL_GRACE_MS, () => {
        const cause = timedOut(task, ms, what);
        const circumstances = circumstancesOf(task, this.#deps.runtime);
        void this.#kill(what, () => failed(handler, task, circumstances, { cause, askedMs: null }));
      });
    if (timeoutMs !== undefined) expire(timeoutMs, 'its timeout');
    if (deadlineMs !== undefined) expire(deadlineMs - clock.now(), 'its deadline');
  }

  async #kill(why: string, settlement: () => Settlement): Promise<void> {
    if (this.#isKilling) return;
    this.#isKilling = true;
    const { clock, log } = this.#deps.runtime;
    const { task, mode } = this.#start;
    log.warn(
      { task: task.id, mode, why },
      'a handler did not heed its signal; its isolate is killed',
    );
    // Settled only once it is gone: the next run must not overlap with it.
    const gone = new AbortController();
    const killing = this.#isolate.kill().then(() => gone.abort());
    await Promise.race([killing, sleep(clock, KILL_TIMEOUT_MS, gone.signal)]);
    this.#end(settlement());
  }
}

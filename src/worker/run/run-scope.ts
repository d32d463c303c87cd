import { isUnavailable, outlastError } from '../../errors/error.ts';
import type { BegunTask, Ledger, RaiseReply, RunRef, StepStatus } from '../../ledger/ledger.ts';
import { nextTurn } from '../../runtime/wakeable.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { durationMs } from '../../task/duration.ts';
import type { SendOptions, SendRest, Task, TaskShape } from '../../task/define-task.ts';
import type { EnvelopeOptions } from '../../task/envelope.ts';
import { fingerprintOf } from '../../task/digest.ts';
import { check } from '../../task/input.ts';
import { decodeJson, encodeJson, toBytes, toText } from '../../task/json.ts';
import { safeName } from '../../task/names.ts';
import { NO_OPTIONS, readOptions } from '../../task/read-options.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { TaskContext } from '../context.ts';
import { type EffectDoor, type EffectKey, fenceStale } from '../effects/door.ts';
import { encodeStep } from '../effects/encode-step.ts';
import type { Handler } from '../handler.ts';
import { RunContext, type RunOperations } from './run-context.ts';
import { type RunStop, type StopReason, softlyTimedOut, timedOut } from './settlement.ts';
import { reportSoftTimeout } from './settler.ts';
import { StepQueue } from '../effects/effect-once-door.ts';

/** What a run needs from the ledger. Calls use the current epoch of the run, not the one it began with. */
export type RunLedger = Pick<Ledger, 'checkpoint' | 'raiseEpoch'>;

export interface RunScopeDeps {
  readonly runtime: Runtime;
  /** Receives the promise of the handler itself, which may outlive its run. */
  readonly onRunning?: (handler: Promise<unknown>) => void;
}

export interface RunScopeStart {
  readonly task: BegunTask;
  readonly handler: Handler;
  readonly input: unknown;
  readonly stop: RunStop;
  readonly ledger: RunLedger;
  /** The key that the effects of the run belong to beside its task; null: the task alone. */
  readonly effect: EffectKey | null;
}

/** What the end of a handler means for its task. */
export interface Endings<T> {
  /** An error that it throws counts as the handler's. */
  readonly done: (value: unknown) => T | Promise<T>;
  /** Never throws. */
  readonly failed: (error: unknown) => T;
}

/** One run of one handler: its context, its clocks and its signals, all of which end with the run. */
export class RunScope implements RunOperations {
  readonly context: TaskContext;
  readonly options: EnvelopeOptions;
  readonly #task: BegunTask;
  readonly #handler: Handler;
  readonly #stop: RunStop;
  readonly #ledger: RunLedger;
  readonly #effect: EffectKey | null;
  readonly #deps: RunScopeDeps;
  /** Both signals are created on first access; most handlers never use them. */
  #hard: AbortController | null = null;
  #soft: AbortController | null = null;
  /** What ended the run before its handler ended. */
  #endedBy: Error | null = null;
  #isSoftlyOver = false;
  #reject: (error: Error) => void = () => undefined;
  // Created on first use: a short handler needs none of them.
  #undo: (() => void)[] | null = null;
  #door: EffectDoor | null = null;
  #queue: StepQueue | null = null;
  #steps: Set<string> | null = null;
  #sends: Map<string, number> | null = null;
  /** The last checkpoint that was requested. */
  #saving: Promise<void> | null = null;
  #seq: number;
  #epoch: number;
  #storeFailure: unknown;
  #hasEnded = true;
  #isOver = false;

  constructor(start: RunScopeStart, deps: RunScopeDeps) {
    const { task, handler, input, stop } = start;
    this.#task = task;
    this.#handler = handler;
    this.#stop = stop;
    this.#ledger = start.ledger;
    this.#effect = start.effect;
    this.#deps = deps;
    this.#epoch = task.epoch;
    this.#seq = task.checkpointSeq;
    this.options = readOptions(task.envelope);
    this.context = new RunContext(task, input, this.options, this);
    if (this.options !== NO_OPTIONS || task.timeoutMs !== undefined) this.#startTimers();
    stop.onStop(() => {
      if (!this.#isOver) this.#end(leaseLost(task));
    });
  }

  /**
   * Maps the value of the handler, or the error that ended the run before the handler did; the scope is closed
   * then.
   */
  race<T>(running: Promise<unknown>, { done, failed }: Endings<T>): Promise<T> {
    this.#hasEnded = false;
    this.#deps.onRunning?.(running);
    return new Promise(resolve => {
      let isDecided = false;
      const settle = (ending: () => T): void => {
        if (isDecided) return;
        isDecided = true;
        const made = ending();
        this.#close();
        resolve(made);
      };
      const fail = (error: unknown): void => settle(() => failed(error));
      const end = (value: unknown): void => {
        try {
          const ending = done(value);
          // The run may still end before the schema of its result has.
          if (ending instanceof Promise) ending.then(late => settle(() => late), fail);
          else settle(() => ending);
        } catch (error) {
          fail(error);
        }
      };
      this.#reject = fail;
      // A handler that ignores its signal goes on in the background; what it throws later is ignored.
      running.then(
        value => {
          this.#hasEnded = true;
          if (!isDecided) end(value);
        },
        (error: unknown) => {
          this.#hasEnded = true;
          fail(error);
        },
      );
      if (this.#endedBy !== null) fail(this.#endedBy);
    });
  }

  stopReason(): StopReason | null {
    return this.#stop.reason;
  }

  /**
   * Whether our own store failed this run. Any other error of the kind, for example of a second database, is the
   * handler's own: released without an attempt it would be repeated forever.
   */
  isStoreFailure(error: unknown): boolean {
    return error !== undefined && error === this.#storeFailure;
  }

  async #guarded<T>(asking: Promise<T>): Promise<T> {
    try {
      return await asking;
    } catch (error) {
      if (isUnavailable(error)) this.#storeFailure = error;
      throw error;
    }
  }

  isPastDeadline(): boolean {
    const { deadlineMs } = this.options;
    return deadlineMs !== undefined && deadlineMs <= this.#deps.runtime.clock.now();
  }

  random(): number {
    return this.#deps.runtime.random.next();
  }

  #close(): void {
    this.#isOver = true;
    this.#queue?.close(fenceStale(this.#ref()));
    if (this.#undo !== null) for (const undo of this.#undo) undo();
    if (!this.#hasEnded) void this.#warnIfStillRunning();
  }

  /** A handler that heeds its signal ends a moment after its run. */
  async #warnIfStillRunning(): Promise<void> {
    await nextTurn();
    if (!this.#hasEnded)
      this.context.log.warn({}, 'the handler goes on though its run is over; it can write no more');
  }

  /** A handler that goes on after its run must be refused everywhere, also between the end of the run and its settlement. */
  #refuseIfOver(): void {
    if (this.#endedBy !== null) throw this.#endedBy;
    if (this.#isOver) throw fenceStale(this.#ref());
  }

  /** The first reason counts. */
  #end(error: Error): void {
    if (this.#endedBy !== null) return;
    this.#endedBy = error;
    this.#queue?.close(error);
    this.#hard?.abort(error);
    this.#reject(error);
  }

  get log(): Logger {
    return this.#deps.runtime.log;
  }

  /** The current epoch. */
  epoch(): number {
    return this.#epoch;
  }

  hard(): AbortSignal {
    if (this.#hard === null) {
      this.#hard = new AbortController();
      if (this.#endedBy !== null) this.#hard.abort(this.#endedBy);
    }
    return this.#hard.signal;
  }

  soft(): AbortSignal {
    if (this.#soft === null) {
      const soft = new AbortController();
      this.#soft = soft;
      const { draining } = this.#stop;
      const drain = (): void => soft.abort();
      if (this.#isSoftlyOver) soft.abort(softlyTimedOut(this.#task));
      else if (draining.aborted) drain();
      else if (!this.#isOver) {
        draining.addEventListener('abort', drain, { once: true });
        this.#undoLater(() => draining.removeEventListener('abort', drain));
      }
    }
    return this.#soft.signal;
  }

  #undoLater(undo: () => void): void {
    (this.#undo ??= []).push(undo);
  }

  #startTimers(): void {
    const { clock } = this.#deps.runtime;
    const { softTimeoutMs, deadlineMs, timeoutMs = this.#task.timeoutMs } = this.options;
    const timer = (ms: number, fn: () => void): void => this.#undoLater(clock.timer(ms, fn));
    if (timeoutMs !== undefined) timer(timeoutMs, () => this.#expire(timeoutMs, 'its timeout'));
    if (deadlineMs !== undefined)
      timer(deadlineMs - clock.now(), () => this.#expire(deadlineMs - clock.now(), 'its deadline'));
    if (softTimeoutMs !== undefined) timer(softTimeoutMs, () => this.#softExpire(softTimeoutMs));
  }

  #expire(timeoutMs: number, what: string): void {
    this.#end(timedOut(this.#task, timeoutMs, what));
  }

  #softExpire(softTimeoutMs: number): void {
    reportSoftTimeout(this.#task, softTimeoutMs, this.#deps.runtime.emit);
    this.#isSoftlyOver = true;
    this.#soft?.abort(softlyTimedOut(this.#task));
    const { onSoftTimeout } = this.#handler;
    if (!onSoftTimeout) return;
    const report = (error: unknown) => this.context.log.warn({ error }, 'onSoftTimeout failed');
    try {
      Promise.resolve(onSoftTimeout(this.context)).catch(report);
    } catch (error) {
      report(error);
    }
  }

  /** One after the other: the ledger refuses a checkpoint that arrives after a later one, and a refused run loses its task. */
  checkpoint(data: unknown): Promise<void> {
    const saving = this.#save(data, this.#saving);
    this.#saving = saving.catch(() => undefined);
    return saving;
  }

  async #save(data: unknown, before: Promise<void> | null): Promise<void> {
    this.#refuseIfOver();
    this.#turns().refuseInside('ctx.checkpoint');
    const { name } = this.#task.envelope;
    // Encoded now: a handler that does not await may change it.
    const bytes = toBytes(encodeJson(data));
    if (this.#handler.checkpoint)
      await check(`checkpoint of ${name}`, this.#handler.checkpoint, data);
    if (before !== null) await before;
    const keep = async (): Promise<StepStatus> => {
      this.#refuseIfOver();
      return await this.#guarded(this.#ledger.checkpoint(this.#task, ++this.#seq, bytes));
    };
    const { locksTask } = this.#theDoor();
    const status = await (locksTask ? this.#turns().inTurn('ctx.checkpoint', keep) : keep());
    if (status !== 'ok') throw fenceStale(this.#ref());
  }

  /** Fences off earlier runs before the handler starts, if it asks for that. */
  async fenceOff(): Promise<void> {
    if (this.#handler.fence === 'start') await this.#guarded(this.#theDoor().fence(this.#ref()));
  }

  #theDoor(): EffectDoor {
    return (this.#door ??= this.#handler.origin.door({
      faultPoint: this.#deps.runtime.faultPoint,
      ledger: { raiseEpoch: (run, above) => this.#raise(run, above) },
    }));
  }

  #turns(): StepQueue {
    return (this.#queue ??= new StepQueue(this.#deps.runtime.clock));
  }

  #ref(): RunRef {
    return { id: this.#task.id, epoch: this.#epoch, run: this.#task.run };
  }

  async #raise(run: RunRef, above: number): Promise<RaiseReply> {
    const reply = await this.#ledger.raiseEpoch(run, above);
    if (reply.status === 'ok') this.#epoch = reply.epoch;
    return reply;
  }

  async transaction<T>(fn: (tx: unknown) => Promise<T>, step: string): Promise<T> {
    this.#refuseIfOver();
    this.#turns().refuseInside('ctx.transaction');
    this.#claimStep(safeName(step, 'step'));
    const bytes = await this.#pass(`the ctx.transaction of the step ${step}`, step, async tx => {
      const value = await fn(tx);
      return value === undefined ? null : encodeStep(value, step);
    });
    await this.#deps.runtime.faultPoint('door.committed-not-reported');
    return (bytes === null ? undefined : decodeJson(toText(bytes))) as T;
  }

  /** The fence may be locked after the run has ended, and the effect may outlast the run: both are rolled back. */
  async #pass(
    call: string,
    step: string,
    fn: (tx: unknown) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null> {
    const effect = this.#effect ?? undefined;
    const enter = async (tx: unknown): Promise<Uint8Array | null> => {
      this.#refuseIfOver();
      const value = await this.#turns().inside(step, () => fn(tx));
      this.#refuseIfOver();
      return value;
    };
    return await this.#turns().inTurn(call, () => {
      this.#refuseIfOver();
      return this.#guarded(this.#theDoor().pass({ ...this.#ref(), effect }, step, enter));
    });
  }

  async send<F extends TaskShape>(task: Task<F>, rest: SendRest<F>): Promise<string> {
    this.#refuseIfOver();
    this.#turns().refuseInside('ctx.send');
    const [input, options] = rest as [unknown, SendOptions | undefined];
    // The step is named by what is sent, not by its turn: a rerun that takes another path sends something else.
    const what = fingerprintOf(task.name, task.contract.version, encodeJson(input ?? null), '');
    const sends = (this.#sends ??= new Map<string, number>());
    const nth = (sends.get(what) ?? 0) + 1;
    sends.set(what, nth);
    const step = `send:${what.slice(0, 32)}:${nth}`;
    const within = this.#within(options ?? {});
    const bytes = await this.#pass('ctx.send', step, async tx =>
      toBytes(encodeJson(await this.#handler.origin.sendInside(tx, task, input, within))),
    );
    return decodeJson(toText(bytes ?? toBytes('""'))) as string;
  }

  /** A follow-up has the deadline of this task, or an earlier one of its own: no caller waits any longer. */
  #within(options: SendOptions): SendOptions {
    const { deadlineMs } = this.options;
    if (deadlineMs === undefined) return options;
    const { deadline } = options;
    if (deadline !== undefined) {
      const { clock } = this.#deps.runtime;
      const ownMs =
        deadline instanceof Date
          ? deadline.getTime()
          : clock.now() + durationMs(deadline, 'deadline');
      // Also an invalid time: the code that composes the task rejects it.
      if (!(ownMs > deadlineMs)) return options;
    }
    return { ...options, deadline: new Date(deadlineMs) };
  }

  #claimStep(step: string): void {
    const steps = (this.#steps ??= new Set<string>());
    if (!steps.has(step)) return void steps.add(step);
    throw outlastError('ERR_STEP_REUSED', {
      message: `the step ${step} was used before in this run`,
      hint: "Give each ctx.transaction of a handler its own name: { step: 'charge' }.",
      fields: { step },
    });
  }
}

/** Why `ctx.signal` fires when neither a timeout nor a deadline has passed. */
function leaseLost(task: BegunTask): Error {
  return outlastError('ERR_LEASE_LOST', {
    message: `this run of ${task.id} ends here: its task was cancelled, taken away or is given back`,
    hint: 'Nothing to do: stop, and write nothing more.',
    fields: { id: task.id },
  });
}

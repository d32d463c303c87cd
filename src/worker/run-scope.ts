import { isUnavailable, outlastError } from '../errors/error.ts';
import type { BegunTask, Ledger, LiftReply, RunRef } from '../ledger/ledger.ts';
import { nextTurn } from '../runtime/end-of-tick.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { durationMs } from '../task/duration.ts';
import type { SendRest, Task, TaskShape } from '../task/define-task.ts';
import type { EnvelopeOptions } from '../task/envelope.ts';
import { fingerprintOf } from '../task/digest.ts';
import { check } from '../task/input.ts';
import { decodeJson, encodeJson, toBytes, toText } from '../task/json.ts';
import { safeName } from '../task/names.ts';
import type { SendOptions } from '../task/define-task.ts';
import { NO_OPTIONS, readOptions } from '../task/read-options.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TaskContext } from './context.ts';
import { fenceStale, type EffectDoor, type EffectKey } from './door.ts';
import type { Handler } from './handler.ts';
import { RunContext, type RunDesk } from './run-context.ts';
import { insideDoor, refuseInside } from './inside-door.ts';
import type { RunStop, StopReason } from './run-stop.ts';
import { timedOut } from './settlement.ts';

/** What a run asks of the ledger. It is asked under the epoch the run has now, whatever the one was that it began with. */
export type RunLedger = Pick<Ledger, 'checkpoint' | 'lift'>;

export interface RunScopeDeps {
  readonly runtime: Runtime;
  /** Told the promise of the handler itself, which may outlive its run. */
  readonly onRunning?: (handler: Promise<unknown>) => void;
}

export interface RunScopeStart {
  readonly task: BegunTask;
  readonly handler: Handler;
  readonly input: unknown;
  readonly stop: RunStop;
  readonly ledger: RunLedger;
  /** What the effects of the run belong to beside its task; null: the task alone. */
  readonly effect: EffectKey | null;
}

/** What the end of a handler means for its task. */
export interface Endings<T> {
  /** An error that it throws is one of the handler. */
  readonly done: (value: unknown) => T | Promise<T>;
  /** Never throws. */
  readonly failed: (error: unknown) => T;
}

/** One run of one handler: its context, its clocks and its signals, all over with the run. */
export class RunScope implements RunDesk {
  readonly context: TaskContext;
  readonly options: EnvelopeOptions;
  readonly #task: BegunTask;
  readonly #handler: Handler;
  readonly #stop: RunStop;
  readonly #ledger: RunLedger;
  readonly #effect: EffectKey | null;
  readonly #deps: RunScopeDeps;
  /** Both signals are made for handlers that look at them; most do not. */
  #hard: AbortController | null = null;
  #soft: AbortController | null = null;
  /** What ended the run before its handler did. */
  #endedBy: Error | null = null;
  #isSoftlyOver = false;
  #reject: (error: Error) => void = () => undefined;
  // Made when they are needed: a short handler needs none of them.
  #undo: (() => void)[] | null = null;
  #door: EffectDoor | null = null;
  #steps: Set<string> | null = null;
  #sends: Map<string, number> | null = null;
  /** The last checkpoint that was asked for. */
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
    if (this.options !== NO_OPTIONS) this.#startTimers();
    stop.onStop(() => {
      if (!this.#isOver) this.#end(leaseLost(task));
    });
  }

  /**
   * What is made of the value of the handler, or of the error that ended the run before the handler did; the scope is
   * closed then.
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
      // A handler that ignores its signal goes on in the background; whatever it throws later concerns nobody.
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
   * Whether it was our own store that failed this run. Any other error of the kind, of a second database say, is the
   * handler's own: given back for nothing it would be repeated for ever.
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
    if (this.#undo !== null) for (const undo of this.#undo) undo();
    if (!this.#hasEnded) void this.#tellDeaf();
  }

  /** One that heeds its signal ends a moment after its run. */
  async #tellDeaf(): Promise<void> {
    await nextTurn();
    if (!this.#hasEnded)
      this.context.log.warn({}, 'the handler goes on though its run is over; it can write no more');
  }

  /** What goes on after its run must find every door shut, also between the end of the run and its settlement. */
  #refuseIfOver(): void {
    if (this.#endedBy !== null) throw this.#endedBy;
    if (this.#isOver) throw fenceStale(this.#ref());
  }

  /** The first reason counts. */
  #end(error: Error): void {
    if (this.#endedBy !== null) return;
    this.#endedBy = error;
    this.#hard?.abort(error);
    this.#reject(error);
  }

  get log(): Logger {
    return this.#deps.runtime.log;
  }

  /** The one it has now. */
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
      if (this.#isSoftlyOver || draining.aborted) drain();
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
    const { timeoutMs, softTimeoutMs, deadlineMs } = this.options;
    const timer = (ms: number, fn: () => void): void => this.#undoLater(clock.timer(ms, fn));
    if (timeoutMs !== undefined) timer(timeoutMs, () => this.#expire(timeoutMs, 'its timeout'));
    if (deadlineMs !== undefined)
      timer(deadlineMs - clock.now(), () => this.#expire(deadlineMs - clock.now(), 'its deadline'));
    if (softTimeoutMs !== undefined) timer(softTimeoutMs, () => this.#softExpire());
  }

  #expire(timeoutMs: number, what: string): void {
    this.#end(timedOut(this.#task, timeoutMs, what));
  }

  #softExpire(): void {
    this.#isSoftlyOver = true;
    this.#soft?.abort();
    const { onSoftTimeout } = this.#handler;
    if (!onSoftTimeout) return;
    const report = (error: unknown): void =>
      this.context.log.warn({ error }, 'onSoftTimeout failed');
    try {
      Promise.resolve(onSoftTimeout(this.context)).catch(report);
    } catch (error) {
      report(error);
    }
  }

  /** One after the other: the ledger takes none that comes after a later one, and who is refused has lost his task. */
  checkpoint(data: unknown): Promise<void> {
    const saving = this.#save(data, this.#saving);
    this.#saving = saving.catch(() => undefined);
    return saving;
  }

  async #save(data: unknown, before: Promise<void> | null): Promise<void> {
    this.#refuseIfOver();
    refuseInside(this, 'ctx.checkpoint');
    const { name } = this.#task.envelope;
    // As it is now: whoever does not wait may change it.
    const bytes = toBytes(encodeJson(data));
    if (this.#handler.checkpoint)
      await check(`checkpoint of ${name}`, this.#handler.checkpoint, data);
    if (before !== null) await before;
    this.#refuseIfOver();
    const status = await this.#guarded(this.#ledger.checkpoint(this.#task, ++this.#seq, bytes));
    if (status !== 'ok') throw fenceStale(this.#ref());
  }

  /** Fences off earlier runs before the handler runs, where it wants that. */
  async fenceOff(): Promise<void> {
    if (this.#handler.fence === 'start') await this.#guarded(this.#theDoor().fence(this.#ref()));
  }

  #theDoor(): EffectDoor {
    return (this.#door ??= this.#handler.origin.door({
      faultPoint: this.#deps.runtime.faultPoint,
      ledger: { lift: (run, above) => this.#lift(run, above) },
    }));
  }

  #ref(): RunRef {
    return { id: this.#task.id, epoch: this.#epoch, run: this.#task.run };
  }

  async #lift(run: RunRef, above: number): Promise<LiftReply> {
    const reply = await this.#ledger.lift(run, above);
    if (reply.status === 'ok') this.#epoch = reply.epoch;
    return reply;
  }

  async transaction<T>(fn: (tx: unknown) => Promise<T>, step: string): Promise<T> {
    this.#refuseIfOver();
    refuseInside(this, 'ctx.transaction');
    this.#claimStep(safeName(step, 'step'));
    const bytes = await this.#guarded(
      this.#pass(step, async tx => {
        const value = await fn(tx);
        return value === undefined ? null : toBytes(encodeJson(value));
      }),
    );
    await this.#deps.runtime.faultPoint('door.committed-not-told');
    return (bytes === null ? undefined : decodeJson(toText(bytes))) as T;
  }

  /** The fence may come after the end of the run, and the effect may outlast it: both are rolled back. */
  async #pass(
    step: string,
    fn: (tx: unknown) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null> {
    const effect = this.#effect ?? undefined;
    return await this.#theDoor().pass({ ...this.#ref(), effect }, step, async tx => {
      this.#refuseIfOver();
      const value = await insideDoor(this, step, () => fn(tx));
      this.#refuseIfOver();
      return value;
    });
  }

  async send<F extends TaskShape>(task: Task<F>, rest: SendRest<F>): Promise<string> {
    this.#refuseIfOver();
    refuseInside(this, 'ctx.send');
    const [input, options] = rest as [unknown, SendOptions | undefined];
    // Named by what is sent, not by its turn: a rerun that takes another path sends something else.
    const what = fingerprintOf(task.name, task.contract.version, encodeJson(input ?? null), '');
    const sends = (this.#sends ??= new Map<string, number>());
    const nth = (sends.get(what) ?? 0) + 1;
    sends.set(what, nth);
    const step = `send:${what.slice(0, 32)}:${nth}`;
    const within = this.#within(options ?? {});
    const bytes = await this.#guarded(
      this.#pass(step, async tx =>
        toBytes(encodeJson(await this.#handler.origin.sendInside(tx, task, input, within))),
      ),
    );
    return decodeJson(toText(bytes ?? toBytes('""'))) as string;
  }

  /** What follows has the deadline of this task, or a sooner one of its own: nobody waits for it any longer. */
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
      // Also what is no time at all: whoever composes the task refuses that.
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

import { outlastError } from '../../errors/error.ts';
import { type Runtime, sleep } from '../../runtime/runtime.ts';
import type { Isolate, IsolateMode, Isolates, StopSignals } from './isolate.ts';

export interface IsolatePoolDeps {
  readonly runtime: Pick<Runtime, 'log' | 'clock'>;
  /** Handlers that may run in isolates at the same time. */
  readonly limit: number;
  /** Creates an isolate and waits until it has loaded its handlers. */
  readonly open: (mode: IsolateMode) => Promise<Isolate>;
  /** Whether it has grown too large to be used again. */
  readonly isWornOut: (isolate: Isolate) => boolean;
}

/** A thread in native code ends only when that code returns; the pool does not wait forever. */
const CLOSE_GRACE_MS = 5_000;

interface Waiting {
  readonly admit: () => void;
}

/**
 * The isolates of one worker. A run that finds no free slot waits, and may give up waiting; a run with a slot gets an isolate
 * that was used before, or a new one. An isolate that was killed, ended or has grown too large is not used again.
 */
export class IsolatePool implements Isolates {
  readonly #deps: IsolatePoolDeps;
  readonly #idle: Isolate[] = [];
  readonly #all = new Set<Isolate>();
  readonly #waiting = new Set<Waiting>();
  #busy = 0;
  #isClosed = false;

  constructor(deps: IsolatePoolDeps) {
    this.#deps = deps;
  }

  /** Opens one isolate of this mode ahead of time and checks that it has these handlers. */
  async prepare(mode: IsolateMode, tasks: readonly string[]): Promise<void> {
    const isolate = await this.#open(mode);
    const missing = tasks.find(task => !isolate.tasks.has(task));
    if (missing === undefined) return void this.#idle.push(isolate);
    await isolate.kill();
    throw notFound(missing, mode);
  }

  async enter(mode: IsolateMode, stop: StopSignals): Promise<Isolate | null> {
    if (!(await this.#takeSlot(stop))) return null;
    const idle = this.#takeIdle(mode);
    if (idle) return idle;
    const opening = this.#open(mode);
    try {
      const isolate = await unlessStopped(opening, stop);
      if (isolate !== null) return isolate;
    } catch (error) {
      this.#freeSlot();
      throw error;
    }
    // It keeps the slot until it is open: then another run may use it.
    opening.then(
      isolate => this.leave(isolate),
      () => this.#freeSlot(),
    );
    return null;
  }

  leave(isolate: Isolate): void {
    if (isolate.isOpen && !this.#isClosed && !this.#deps.isWornOut(isolate))
      this.#idle.push(isolate);
    else void isolate.kill();
    this.#freeSlot();
  }

  /** Ends every isolate; what still runs in one is killed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const gone = new AbortController();
    const killing = Promise.all([...this.#all].map(isolate => isolate.kill())).then(() =>
      gone.abort(),
    );
    await Promise.race([killing, sleep(this.#deps.runtime.clock, CLOSE_GRACE_MS, gone.signal)]);
  }

  #takeIdle(mode: IsolateMode): Isolate | undefined {
    const at = this.#idle.findLastIndex(isolate => isolate.mode === mode);
    return at === -1 ? undefined : this.#idle.splice(at, 1)[0];
  }

  async #open(mode: IsolateMode): Promise<Isolate> {
    const isolate = await this.#deps.open(mode);
    this.#all.add(isolate);
    void isolate.ended.then(how => {
      this.#all.delete(isolate);
      const at = this.#idle.indexOf(isolate);
      if (at === -1) return;
      this.#idle.splice(at, 1);
      if (!this.#isClosed) this.#deps.runtime.log.warn({ error: how }, 'an idle isolate ended');
    });
    // The pool may have been closed while the isolate was being created.
    if (this.#isClosed) await isolate.kill();
    return isolate;
  }

  /** True: the run has a slot. False: the run was stopped, or its worker drains, before one was free. */
  #takeSlot(stop: StopSignals): Promise<boolean> {
    const signals = [stop.signal, stop.draining];
    if (signals.some(signal => signal.aborted)) return Promise.resolve(false);
    if (this.#busy < this.#deps.limit) {
      this.#busy += 1;
      return Promise.resolve(true);
    }
    return new Promise(resolve => {
      const end = (isAdmitted: boolean): void => {
        this.#waiting.delete(waiting);
        for (const signal of signals) signal.removeEventListener('abort', giveUp);
        resolve(isAdmitted);
      };
      const giveUp = (): void => end(false);
      const waiting: Waiting = { admit: () => end(true) };
      this.#waiting.add(waiting);
      for (const signal of signals) signal.addEventListener('abort', giveUp, { once: true });
    });
  }

  /** Gives the slot to the run that has waited longest, or frees it. */
  #freeSlot(): void {
    const [next] = this.#waiting;
    if (next) next.admit();
    else this.#busy -= 1;
  }
}

/** Null: the run was stopped, or its worker drains, before that. */
function unlessStopped<T>(work: Promise<T>, { signal, draining }: StopSignals): Promise<T | null> {
  const signals = [signal, draining];
  if (signals.some(({ aborted }) => aborted)) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const giveUp = (): void => resolve(null);
    for (const one of signals) one.addEventListener('abort', giveUp, { once: true });
    const forget = (): void => {
      for (const one of signals) one.removeEventListener('abort', giveUp);
    };
    work.then(resolve, reject).finally(forget);
  });
}

function notFound(task: string, mode: IsolateMode): Error {
  return outlastError('ERR_HANDLER_NOT_LOADABLE', {
    message: `the handler of ${task} has mode '${mode}', and no module named in \`tasks\` exports it`,
    hint: `Export it from a module that \`tasks\` of the configuration names: a ${mode} loads its handlers itself.`,
    fields: { file: '' },
  });
}

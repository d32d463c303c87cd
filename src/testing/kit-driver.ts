import type { Context } from '../context/context.ts';
import { isUnavailable, outlastError } from '../errors/error.ts';
import { Reaper } from '../ledger/reaper.ts';
import { handlerMap } from '../process/load-handlers.ts';
import { openScheduler } from '../process/scheduler-service.ts';
import { makeRelay } from '../process/relay-service.ts';
import { resurrectorSettings } from '../process/resurrector-service.ts';
import { makeWorker } from '../process/worker-service.ts';
import { Resurrector } from '../recovery/resurrector.ts';
import type { FaultPointName, Runtime } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { type Handler, abilitiesOf, canRun } from '../worker/handler.ts';
import { KitProcess } from './kit-process.ts';
import type { KitStores } from './kit-stores.ts';
import type { KitTime } from './kit-time.ts';
import type { TaskRecord } from './memory/memory-record.ts';

/** How long a drain waits for handlers, in real time: less than the runners of tests wait for a test. */
const PATIENCE_MS = 4_000;
const RELAY_RETRY_MS = 500;
/** A drain that still finds something after this many rounds feeds itself. */
const MOST_ROUNDS = 10_000;

/** What a performed run has behind it. */
export type RunsBefore = Partial<Pick<TaskRecord, 'failures' | 'crashes' | 'checkpoint'>>;

/** Runs relay, worker and recovery of a kit, one process at a time. */
export class KitDriver {
  readonly #time: KitTime;
  readonly #stores: KitStores;
  readonly #origin: Context;
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #runnable: Readonly<Record<string, number>>;
  readonly #armed: FaultPointName[] = [];
  /** Fault points at which a process has died, in order. */
  readonly crashes: string[] = [];
  #active = 0;
  #processes = 0;

  constructor(
    origin: Context,
    handlers: readonly Handler[],
    parts: { readonly time: KitTime; readonly stores: KitStores },
  ) {
    this.#time = parts.time;
    this.#stores = parts.stores;
    this.#origin = origin;
    this.#handlers = handlerMap(handlers.map(handler => this.#counted(handler)));
    this.#runnable = abilitiesOf(this.#handlers).runnable;
  }

  crashAt(point: FaultPointName): void {
    this.#armed.push(point);
  }

  /** Relay, worker and recovery until nothing is due; the clock may be moved up to `endMs` for what is due later. */
  async drain(endMs: number): Promise<void> {
    for (let round = 0; round < MOST_ROUNDS; round++) {
      await this.#fireSchedules();
      await this.#relayAll();
      if (this.#isBusy()) await this.#work(this.#handlers, () => this.#isBusy());
      await this.#sendOwed();
      await this.#stores.database?.take();
      if (this.#isBusy() || (await this.#nextRowMs()) === this.#time.nowMs) continue;
      const nextMs = await this.#nextMs();
      if (nextMs > endMs) return;
      await this.#time.moveBy(nextMs - this.#time.nowMs);
    }
    throw stuck('tasks keep sending tasks', this.#running());
  }

  /** As every process does beside its work. */
  async #fireSchedules(): Promise<void> {
    if (this.#origin.config.schedule.length + this.#stores.schedules.rows.size === 0) return;
    const process = this.#spawn('scheduler');
    const context = this.#contextOf(process);
    const { declarer, scheduler } = await openScheduler(context, await context.stores());
    await this.#until(
      declarer.look().then(() => scheduler.look()),
      process,
    );
  }

  /** A relay that runs asks again when its store has not answered. */
  async #relayAll(): Promise<void> {
    try {
      await this.relay('drain');
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      await this.#time.moveBy(RELAY_RETRY_MS);
    }
  }

  /** Moves committed tasks on; a relay that dies is replaced by the next call. */
  async relay(verb: 'drain' | 'pass'): Promise<number> {
    await this.#stores.database?.take();
    const process = this.#spawn('relay');
    const context = this.#contextOf(process);
    const moved = makeRelay(context)[verb](new AbortController().signal);
    return (await this.#until(moved, process)) ?? 0;
  }

  /** One run of one task, with the rest of the ledger set aside; returns the record as the run has left it. */
  async perform(handler: Handler, envelope: Envelope, before: RunsBefore): Promise<TaskRecord> {
    const { state } = this.#stores.ledger;
    const others = [...state.records];
    state.records.clear();
    const record = Object.assign(state.put(envelope.id, envelope), before);
    const isBusy = (): boolean =>
      record.state === 'running' || (record.epoch === 0 && record.state === 'waiting');
    try {
      await this.#work(handlerMap([this.#counted(handler)]), isBusy);
      return record;
    } finally {
      const added = [...state.records].filter(([id]) => id !== envelope.id);
      state.records.clear();
      for (const [id, other] of [...others, ...added]) state.records.set(id, other);
    }
  }

  async #work(handlers: ReadonlyMap<string, Handler>, isBusy: () => boolean): Promise<void> {
    const { database } = this.#stores;
    const process = this.#spawn('worker');
    database?.serve(process);
    const queues = Object.fromEntries([...this.#queues()].map(queue => [queue, 1]));
    const context = this.#contextOf(process).forService({ worker: { queues } });
    const stop = new AbortController();
    const worker = makeWorker(context, { handlers, process: process.name });
    const running = worker.run(stop.signal);
    await this.#until(running, process, () => !isBusy());
    stop.abort();
    await this.#until(running, process);
    if (process.isAlive) return;
    await database?.idle(PATIENCE_MS);
    // As a supervisor does that has seen its child die.
    const { ledger } = this.#stores;
    const { runtime } = this.#contextOf(this.#spawn('supervisor'));
    const reaper = new Reaper(ledger, runtime, resurrectorSettings(context));
    await reaper.condemn({ kind: 'process', process: process.name });
  }

  /** Follow-ups that a dead worker has left. */
  async #sendOwed(): Promise<void> {
    if (this.#stores.ledger.state.after.size === 0) return;
    const process = this.#spawn('resurrector');
    const context = this.#contextOf(process);
    const { ledger, broker, outbox, idempotency, admission, ledgerReads } = this.#stores.stores;
    const keys = { store: idempotency, reads: ledgerReads };
    const settings = resurrectorSettings(context);
    const parts = { ledger, broker, outbox, keys, admission, runtime: context.runtime, settings };
    await this.#until(new Resurrector(parts).look(), process);
  }

  /** Waits for `work`, or until `isOver`, or until the process has died; moves the clock only if nothing else can happen. */
  async #until<T>(
    work: Promise<T>,
    process: KitProcess,
    isOver: () => boolean = () => false,
  ): Promise<T | null> {
    let ended: { readonly value: T } | { readonly error: unknown } | null = null;
    work.then(
      value => (ended = { value }),
      (error: unknown) => (ended = { error }),
    );
    const outcome = (): typeof ended => ended;
    const givesUpAt = performance.now() + PATIENCE_MS;
    for (;;) {
      await this.#time.settle(() => this.#stores.activity);
      const end = outcome();
      if (end !== null && 'error' in end) throw end.error;
      if (end !== null) return end.value;
      if (!process.isAlive || isOver()) return null;
      if (performance.now() > givesUpAt) throw stuck('handlers do not end', this.#running());
      // A handler may wait for the outside world: its timeout must not come first.
      if (this.#active > 0 || this.#stores.database?.isAsked === true)
        await new Promise(resolve => setTimeout(resolve, 1));
      else await this.#time.moveBy(1);
    }
  }

  #spawn(kind: string): KitProcess {
    this.#processes += 1;
    return new KitProcess(`${kind}-${this.#processes}`, this.#time.clock);
  }

  #contextOf(process: KitProcess): Context {
    const faultPoint: Runtime['faultPoint'] = name => {
      const index = this.#armed.indexOf(name);
      if (index === -1) return undefined;
      this.#armed.splice(index, 1);
      this.crashes.push(name);
      return process.die(name);
    };
    const stores = process.through(this.#stores.stores);
    return this.#origin.onStores(async () => stores, { clock: process.clock, faultPoint });
  }

  /** Handlers run here, whatever their mode: threads and processes would not see these stores. */
  #counted(handler: Handler): Handler {
    const run: Handler['run'] = async (...given) => {
      this.#active += 1;
      try {
        return await handler.run(...given);
      } finally {
        this.#active -= 1;
      }
    };
    return Object.freeze({ ...handler, mode: 'inline' as const, run });
  }

  /** Something runs, or is due and can be run here. */
  #isBusy(): boolean {
    const { nowMs } = this.#time;
    return this.#records().some(
      record => record.state === 'running' || (this.#isWaiting(record) && record.dueMs <= nowMs),
    );
  }

  #isWaiting({ state, envelope, refused }: TaskRecord): boolean {
    if (state !== 'waiting' || envelope === null || refused !== null) return false;
    return canRun(envelope, this.#runnable) && !this.#stores.control.isPaused(envelope.queue);
  }

  async #nextRowMs(): Promise<number> {
    const waitMs = await this.#stores.outbox.nextDueMs();
    return waitMs === null ? Infinity : this.#time.nowMs + waitMs;
  }

  async #nextMs(): Promise<number> {
    const { afterDelayMs } = resurrectorSettings(this.#origin);
    const waiting = this.#records().filter(record => this.#isWaiting(record));
    const owed = [...this.#stores.ledger.state.after.values()];
    const { dueMs: slotMs } = await this.#stores.stores.schedules.clock();
    return Math.min(
      slotMs ?? Infinity,
      await this.#nextRowMs(),
      ...waiting.map(({ dueMs }) => dueMs),
      ...owed.map(({ dueMs }) => Math.max(dueMs + afterDelayMs, this.#time.nowMs) + 1),
    );
  }

  #queues(): ReadonlySet<string> {
    const own = [...this.#handlers.values()].map(({ task }) => task.contract.queue);
    return new Set([...own, ...this.#records().flatMap(({ envelope }) => envelope?.queue ?? [])]);
  }

  #records(): readonly TaskRecord[] {
    return [...this.#stores.ledger.state.records.values()];
  }

  #running(): readonly string[] {
    const running = this.#records().filter(({ state }) => state === 'running');
    return running.map(({ envelope }) => envelope?.name ?? '');
  }
}

function stuck(why: string, running: readonly string[]): Error {
  return outlastError('ERR_RESULT_TIMEOUT', {
    message: `the test kit gave up: ${why}; running: ${running.join(', ') || 'nothing'}`,
    hint: 'A handler that waits for the clock of the kit needs kit.clock.advance() while the drain runs.',
    fields: { id: '', state: 'running' },
  });
}

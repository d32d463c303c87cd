import { setMaxListeners } from 'node:events';
import { isUnavailable } from '../errors/error.ts';
import type { Delivery } from '../broker/broker.ts';
import type { BeginOpen, BeginRequest, BegunTask } from '../ledger/ledger.ts';
import type { ConsumerReport, ControlOrders } from '../ledger/control-store.ts';
import { sleep } from '../runtime/clock.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import { Checkpoints } from './checkpoints.ts';
import { ControlWatch } from './control-watch.ts';
import { acceptDeliveries, answerDeliveries } from './deliveries.ts';
import { untilReady, type Beat } from './heart.ts';
import { Intake } from './intake.ts';
import { orderQueues } from './order-queues.ts';
import { Run, type RunDeps } from './run.ts';
import { runKey } from './run-key.ts';
import { createSettler } from './settler.ts';
import type { WorkerDeps, WorkerStatus } from './worker-deps.ts';

/** Crashes of a task that no handler here knows: it is buried by its first run, whatever this says. */
const UNKNOWN_TASK_BUDGET = 5;
/** What is due and was not handed out is being handed to others: asking again at once would only burn the store. */
const SHORTEST_NAP_MS = 10;
/** Pause after the store failed a call of the main loop. */
const STORE_RETRY_MS = 250;
/** A message not begun for this long is given back: another worker may reach the ledger. */
const KEEP_UNBEGUN_MS = 10_000;
/** How long a drain waits for the store to take back what was not finished. */
const RELEASE_PATIENCE_MS = 5_000;

/**
 * Takes tasks and runs them, under one incarnation at a time.
 *
 *   open ──beat answered──► open          closed: the store has given our tasks to others;
 *    │ ▲                                   everything is dropped, a new incarnation is opened
 *    │ └──beat answered: aborted runs are released
 *    ▼
 *   fenced: no beat was answered for almost a lease; handlers are aborted, nothing is begun
 */
export class Worker {
  readonly #deps: WorkerDeps;
  readonly #runs = new Map<string, Run>();
  readonly #asked = new Set<string>();
  readonly #wake: Wakeable;
  readonly #draining = new AbortController();
  readonly #watch: ControlWatch | null;
  readonly #intake: Intake;
  #runDeps: RunDeps;
  #worker = '';
  #isFenced = false;
  /** Nothing could be begun: until that is over no message is taken, so each is given back once and not for ever. */
  #isLedgerAway = false;
  #isClosed = true;
  #isGivingUp = false;
  #begun = 0;
  #isLeaving = false;
  #turnedAt: number;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
    this.#turnedAt = deps.runtime.clock.monotonic();
    this.#wake = new Wakeable(deps.runtime.clock);
    this.#intake = new Intake(deps.broker, deps.settings.queues, this.#wake.hint);
    // Every run listens to it: many listeners are no leak here.
    setMaxListeners(0, this.#draining.signal);
    this.#runDeps = this.#makeRunDeps();
    const { control, runtime } = deps;
    const asked = { report: () => this.#report(), obey: (told: ControlOrders) => this.#obey(told) };
    this.#watch = control ? new ControlWatch({ control, runtime, ...asked }) : null;
  }

  /** How it is, for probes. A drain has an end of its own, so whoever drains makes progress. */
  get status(): WorkerStatus {
    const { clock } = this.#deps.runtime;
    const idleMs = this.#isLeaving ? 0 : clock.monotonic() - this.#turnedAt;
    const isOpen = !this.#isClosed && !this.#isFenced && !this.#isLeaving;
    return { idleMs, isOpen, running: this.#runs.size };
  }

  /** How many tasks are running or being settled. */
  get inflight(): number {
    return this.#runs.size;
  }

  /** It has an incarnation, and takes tasks. */
  get isOpen(): boolean {
    return !this.#isClosed;
  }

  /** How many tasks it has begun since it lives. */
  get begun(): number {
    return this.#begun;
  }

  get runs(): readonly Run[] {
    return [...this.#runs.values()];
  }

  /** The queues it takes from, with their weights; paused ones too. */
  get queues(): Readonly<Record<string, number>> {
    return this.#intake.queues;
  }

  /** Takes from these queues from now on; what it has taken from others it finishes. */
  takeFrom(queues: Readonly<Record<string, number>>): void {
    this.#intake.takeFrom(queues);
  }

  #report(): ConsumerReport | null {
    const { process, host, pid, leaseMs } = this.#deps.settings;
    if (this.#worker === '') return null;
    const queues = this.#isLeaving ? [] : Object.keys(this.queues);
    return { worker: this.#worker, process, host, pid, leaseMs, queues, running: this.#runs.size };
  }

  #obey({ paused, isDraining }: ControlOrders): void {
    this.#intake.pause(paused);
    if (isDraining && !this.#isLeaving) this.#deps.onDrainAsked?.();
  }

  /**
   * Works until the signal aborts, then drains. When `retire` aborts it takes nothing more, and leaves when what it has
   * is done: nothing is aborted for the sake of a new process, or long tasks would never come to an end.
   */
  async run(signal: AbortSignal, retire?: AbortSignal): Promise<void> {
    const undo = this.#deps.ledger.onReady(this.#wake.hint);
    const unwatch = this.#watchLease();
    const unwatchOrders = this.#watch?.start();
    const either = retire ? AbortSignal.any([signal, retire]) : signal;
    try {
      while (!either.aborted) await this.#turn(either);
      this.#isLeaving = true;
      while (!signal.aborted && this.#runs.size > 0)
        await this.#wake.sleep(this.#deps.settings.idleTimeMs, signal);
    } finally {
      undo();
      this.#intake.leave();
      await this.#drain();
      unwatchOrders?.();
      unwatch();
    }
  }

  /** One round: have an incarnation, have a free place, begin, start. */
  async #turn(signal: AbortSignal): Promise<void> {
    const { settings, runtime } = this.#deps;
    this.#turnedAt = runtime.clock.monotonic();
    try {
      if (this.#isClosed) await this.#open(signal);
      if (signal.aborted) return;
      const free = settings.concurrency - this.#runs.size;
      if (free <= 0 || this.#isFenced || this.#intake.isShut) {
        await this.#wake.sleep(settings.idleTimeMs, signal);
        return;
      }
      const reply = await this.#take(free, signal);
      if (reply && reply.begun.length === 0 && reply.answers.length === 0) {
        const dueMs = Math.max(reply.nextDueMs ?? Infinity, SHORTEST_NAP_MS);
        await this.#wake.sleep(Math.min(settings.idleTimeMs, dueMs), signal);
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      runtime.log.warn({ error }, 'the store cannot be used; nothing is begun');
      await sleep(runtime.clock, STORE_RETRY_MS, signal);
    }
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { ledger, heart, runtime, settings } = this.#deps;
    const { process, host, pid, leaseMs } = settings;
    const worker = `${host}:${pid}:${runtime.random.token()}`;
    await untilReady(heart, signal);
    if (signal.aborted) return;
    const sentAt = runtime.clock.monotonic();
    await ledger.open({ worker, process, host, pid, leaseMs });
    this.#worker = worker;
    // Before anything is taken: a queue that is paused stays so whatever restarts.
    await this.#watch?.look();
    this.#isClosed = false;
    this.#isFenced = false;
    this.#runDeps = this.#makeRunDeps();
    heart.beatFor(worker, sentAt, beat => this.#onBeat(beat));
    runtime.log.info({ worker }, 'worker open');
  }

  /** Settling steps belong to an incarnation: those of a closed one are hopeless, not late. */
  #makeRunDeps(): RunDeps {
    const { ledger, broker, runtime, settings } = this.#deps;
    const worker = this.#worker;
    const settler = createSettler(
      ledger,
      runtime,
      () => this.#isClosed || this.#isGivingUp || this.#worker !== worker,
    );
    const { dedupWindowMs, resultTtlMs } = settings;
    const large = this.#deps.largeCheckpoints ?? { store: null, maxBytes: 0 };
    const checkpoints = new Checkpoints({ ...large, ledger, runtime });
    return {
      ...this.#deps,
      checkpoints,
      ledger,
      broker,
      runtime,
      settler,
      dedupMs: dedupWindowMs,
      resultMs: resultTtlMs,
      redact: this.#deps.redact ?? null,
    };
  }

  async #take(free: number, signal: AbortSignal): Promise<BeginOpen | null> {
    const { broker, runtime, settings, handlers, observer } = this.#deps;
    const queues = orderQueues(this.#intake.open, () => runtime.random.next());
    const taken = this.#isLedgerAway ? [] : await this.#intake.take(queues, free);
    const deliveries = await acceptDeliveries(taken, this.#runDeps).catch(
      async (error: unknown) => {
        // The ledger did not take what cannot run now: nobody else will answer for these messages.
        this.#isLedgerAway = true;
        await broker.giveBack(taken);
        throw error;
      },
    );
    if (deliveries.length > 0) await runtime.faultPoint('worker.taken-not-begun');
    const messages = deliveries.map(delivery => delivery.envelope);
    const request: BeginRequest = {
      worker: this.#worker,
      run: runtime.random.token(),
      queues,
      limit: free - messages.length,
      suspects: [...this.#runs.values()].some(run => run.task.isSuspect) ? 0 : 1,
      messages,
      crashBudgets: {
        '*': UNKNOWN_TASK_BUDGET,
        ...Object.fromEntries(
          [...handlers].map(([name, { maxResurrections }]) => [name, maxResurrections]),
        ),
      },
    };
    // Until its tasks are started the answer is ours to know: a beat must not take them for forgotten ones.
    this.#asked.add(request.run);
    try {
      const reply = await this.#begin(request, signal);
      this.#isLedgerAway = reply === null;
      if (reply === null) {
        await broker.giveBack(deliveries.map(delivery => delivery.delivery));
        return null;
      }
      const byId = await answerDeliveries(deliveries, reply.answers, this.#runDeps);
      for (const ref of reply.expired) {
        runtime.emit('task:expired', ref);
        observer?.expired(ref);
      }
      const isLetGo = settings.ackOn === 'begin';
      for (const task of reply.begun)
        this.#start(task, isLetGo ? null : (byId.get(task.id) ?? null));
      // An ack that fails brings copies back, to be acked then: the ledger has their tasks.
      if (isLetGo) await broker.ack([...byId.values()]).catch(() => undefined);
      return reply;
    } finally {
      this.#asked.delete(request.run);
    }
  }

  /** Repeats the call after a lost reply: it names its run, so it gets what it was given before. Null: nothing can be begun. */
  async #begin(request: BeginRequest, signal: AbortSignal): Promise<BeginOpen | null> {
    const { ledger, runtime } = this.#deps;
    const startedAt = runtime.clock.monotonic();
    const isOurs = (): boolean => this.#worker === request.worker && !this.#isClosed;
    for (;;) {
      try {
        const reply = await ledger.begin(request);
        if (reply.status === 'closed') this.#close(request.worker);
        return reply.status === 'open' && isOurs() ? reply : null;
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        runtime.log.warn({ error }, 'begin failed');
        // What landed without our knowing is found by the next beat and released.
        if (signal.aborted || !isOurs() || runtime.clock.monotonic() - startedAt > KEEP_UNBEGUN_MS)
          return null;
        await sleep(runtime.clock, STORE_RETRY_MS, signal);
      }
    }
  }

  #start(task: BegunTask, delivery: Delivery | null): void {
    const run = new Run(task, delivery, this.#draining.signal, this.#runDeps);
    const key = runKey(task);
    this.#runs.set(key, run);
    this.#begun += 1;
    const done = (): void => {
      this.#runs.delete(key);
      this.#wake.hint();
    };
    run.finished.then(done, (error: unknown) => {
      this.#deps.runtime.log.error({ error, task: task.id }, 'a run ended in a way it should not');
      done();
    });
  }

  /** Compares what the store says we run with what we hold. */
  #onBeat(beat: Beat): void {
    if (beat.worker !== this.#worker || this.#isClosed) return;
    if (beat.reply.status === 'closed') return this.#close(beat.worker);
    this.#isFenced = false;
    const stored = new Set(beat.reply.runs.map(runKey));
    for (const [key, run] of this.#runs) {
      // Begun after the beat was sent: the answer cannot know of it.
      if (run.startedAt < beat.sentAt && !stored.has(key)) run.stop('lost');
    }
    const orphans = beat.reply.runs.filter(
      ref => !this.#runs.has(runKey(ref)) && !this.#asked.has(ref.run),
    );
    for (const ref of orphans) void this.#runDeps.settler.release.settle(ref);
    this.#wake.hint();
  }

  /** The store has closed this incarnation: its tasks are others' now. */
  #close(worker: string): void {
    if (worker !== this.#worker || this.#isClosed) return;
    this.#isClosed = true;
    this.#deps.runtime.emit('worker:lease-lost', { worker });
    this.#deps.runtime.log.warn({ worker }, 'lease lost; opening a new incarnation');
    for (const run of this.#runs.values()) run.stop('lost');
    this.#wake.hint();
  }

  /** Fences this process itself a moment before its lease ends, by its own monotonic clock. */
  #watchLease(): () => void {
    const { clock } = this.#deps.runtime;
    const { leaseMs } = this.#deps.settings;
    const marginMs = Math.min(1_000, leaseMs / 5);
    let cancel = (): void => undefined;
    const look = (): void => {
      const leftMs = this.#deps.heart.lastBeatAt() + leaseMs - marginMs - clock.monotonic();
      if (leftMs <= 0 && !this.#isClosed) this.#fence();
      cancel = clock.timer(Math.max(leftMs, marginMs / 2), look);
    };
    cancel = clock.timer(leaseMs - marginMs, look);
    return () => cancel();
  }

  #fence(): void {
    if (this.#isFenced) return;
    this.#isFenced = true;
    this.#deps.runtime.log.warn(
      { worker: this.#worker },
      'no beat was answered; handlers are aborted',
    );
    for (const run of this.#runs.values()) run.stop('release');
    this.#intake.leave();
  }

  /** Lets what runs come to an end, releases what does not, and leaves. */
  async #drain(): Promise<void> {
    const { clock, faultPoint, log, emit } = this.#deps.runtime;
    const { ledger, heart, settings, hurry } = this.#deps;
    this.#draining.abort();
    const all = (): Promise<unknown> =>
      Promise.all([...this.#runs.values()].map(run => run.finished.catch(() => undefined)));
    const patience = new AbortController();
    const signal = hurry ? AbortSignal.any([patience.signal, hurry]) : patience.signal;
    await Promise.race([
      all().then(() => patience.abort()),
      sleep(clock, settings.shutdownTimeoutMs, signal),
    ]);
    const released = this.#runs.size;
    await faultPoint('worker.drain-before-release');
    for (const run of this.#runs.values()) run.stop('release');
    await Promise.race([all(), sleep(clock, RELEASE_PATIENCE_MS)]);
    // The store does not answer: what we run comes back when our lease is over.
    this.#isGivingUp = true;
    await all();
    await heart.stop();
    if (!this.#isClosed) {
      const left = { kind: 'worker', worker: this.#worker } as const;
      // Failing to say goodbye costs a lease, not a task: nothing runs under this incarnation any more.
      await ledger.condemn(left).catch((error: unknown) => log.warn({ error }, 'leaving failed'));
      this.#isClosed = true;
    }
    emit('worker:drained', { worker: this.#worker, released });
  }
}

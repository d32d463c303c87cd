import { setMaxListeners } from 'node:events';
import { isUnavailable } from '../errors/error.ts';
import type { Delivery } from '../broker/broker.ts';
import type { BeginOpen, BeginRequest, BegunTask } from '../ledger/ledger.ts';
import type { ConsumerReport, ControlOrders } from '../ledger/control-store.ts';
import { roundMs } from '../telemetry/logger.ts';
import { Wakeable, endOfTick } from '../runtime/wakeable.ts';
import type { RetryPace } from '../runtime/backoff.ts';
import { type OpenReply, beginOneByOne, makeStorePace } from './intake/begin-messages.ts';
import { failRun } from './run/run-failure.ts';
import { ControlWatch } from './control-watch.ts';
import { type Beginnable, MessageCustody, reportUnbegun } from './intake/deliveries.ts';
import { type Abilities, abilitiesOf, objectivesOf } from './handler.ts';
import { type Beat, LeaseWatch, untilReady } from './lease/heartbeat.ts';
import { Intake } from './intake/intake.ts';
import { Outages } from './run/outages.ts';
import { type BatchPlan, Flow, InFlightBatches, orderQueues } from './flow/flow.ts';
import { Prefetch } from './flow/prefetch.ts';
import { Slots } from './flow/slots.ts';
import { type Incarnation, noIncarnation } from './incarnation.ts';
import { Run, type RunDeps } from './run/run.ts';
import { RunSet, drainRuns, untilEnded } from './run/run-set.ts';
import { createRunDeps } from './run/run-deps.ts';
import type { WorkerDeps, WorkerStatus } from './worker-deps.ts';

/** A task that is due and was not handed out is going to another worker: asking again at once would only load the store. */
const SHORTEST_NAP_MS = 10;

/**
 * Takes tasks and runs them, under one incarnation at a time.
 *
 *   working ──asked to end, or to retire──► leaving: nothing is begun, runs may end
 *                                             │
 *                                             ▼ the store does not take back what is left
 *                                          giving up: it comes back when the lease is over
 */
export class Worker {
  readonly #deps: WorkerDeps;
  readonly #runs = new RunSet();
  readonly #asked = new Set<string>();
  readonly #wake: Wakeable;
  readonly #draining = new AbortController();
  readonly #flow: Flow;
  readonly prefetch: Prefetch;
  readonly #batches = new InFlightBatches<BeginOpen | null>();
  readonly #slots: Slots<Run>;
  readonly #abilities: Abilities;
  readonly #watch: ControlWatch | null;
  readonly #intake: Intake;
  readonly #custody: MessageCustody;
  readonly #lease: LeaseWatch;
  readonly #storePace: RetryPace;
  readonly #outages: Outages;
  #state: 'working' | 'leaving' | 'giving-up' = 'working';
  #incarnation: Incarnation;
  #begun = 0;
  #turnedAt: number;

  constructor(deps: WorkerDeps) {
    const { broker, runtime, settings } = deps;
    const { clock } = runtime;
    const { concurrency, dedupWindowMs } = settings;
    this.#deps = deps;
    this.#abilities = abilitiesOf(deps.handlers);
    this.#turnedAt = clock.monotonic();
    this.#wake = new Wakeable(clock);
    this.#lease = new LeaseWatch(deps.heartbeat, clock, settings.leaseMs);
    const slots = (this.#slots = new Slots(concurrency, clock, run => this.#start(run)));
    const counts = { slots, batches: this.#batches, runs: this.#runs };
    const hasBroker = broker.silentMs !== undefined;
    this.#flow = new Flow(clock, { ...settings, hasBroker }, counts);
    const prefetch = (this.prefetch = new Prefetch(broker, runtime, this.#flow, dedupWindowMs));
    const intake = (this.#intake = new Intake(deps, prefetch, this.#wake.hint));
    this.#custody = new MessageCustody({ ...deps, intake, prefetch });
    this.#storePace = makeStorePace(runtime);
    this.#outages = new Outages(runtime);
    // Every run listens to it: many listeners are no leak here.
    setMaxListeners(0, this.#draining.signal);
    this.#incarnation = noIncarnation(this.#createRunDeps(() => true));
    const asked = { report: () => this.#report(), obey: (next: ControlOrders) => this.#obey(next) };
    const { control } = deps;
    this.#watch = control ? new ControlWatch({ ...deps, control, ...asked }) : null;
  }

  /** Its state, for probes. A drain has a time limit, so a draining worker counts as making progress. */
  get status(): WorkerStatus {
    const { broker, runtime } = this.#deps;
    const isWorking = this.#state === 'working';
    const idleMs = isWorking ? runtime.clock.monotonic() - this.#turnedAt : 0;
    const isOpen = isWorking && this.#incarnation.state === 'open';
    const isAsking = isOpen && this.#flow.free > 0 && !this.#intake.isShut && this.#intake.isTaking;
    const deafMs =
      isAsking && broker.silentMs ? broker.silentMs(Object.keys(this.#intake.open)) : 0;
    const { unsentMs } = this.#incarnation.runDeps.followUps;
    const sending = { unsentMs, blockedBy: broker.blockedBy?.() ?? null };
    const held = { running: this.#runs.size, prefetched: this.prefetch.size };
    return { idleMs, isOpen, deafMs, ...held, ...sending };
  }

  /** It has an incarnation, and takes tasks. */
  get isOpen(): boolean {
    return this.#incarnation.state !== 'closed';
  }

  /** How many tasks it has begun in total. */
  get begun(): number {
    return this.#begun;
  }

  /** Runs that are running or being settled. */
  get runs(): readonly Run[] {
    return [...this.#runs];
  }
  /** The queues it takes from, with their weights; paused ones too. */
  get queues(): Readonly<Record<string, number>> {
    return this.#intake.queues;
  }

  /** Takes from these queues from now on; tasks taken from other queues are finished. */
  takeFrom(queues: Readonly<Record<string, number>>): void {
    this.#intake.takeFrom(queues);
  }

  #report(): ConsumerReport | null {
    const { process, host, pid, leaseMs } = this.#deps.settings;
    const { id: worker } = this.#incarnation;
    if (worker === '') return null;
    const queues = this.#state === 'working' ? Object.keys(this.queues) : [];
    return { worker, process, host, pid, leaseMs, queues, running: this.#runs.size };
  }

  #obey({ paused, isDraining }: ControlOrders): void {
    this.#intake.pause(paused);
    if (isDraining && this.#state === 'working') this.#deps.onDrainAsked?.();
  }

  /**
   * Works until the signal aborts, then drains. When `retire` aborts it takes nothing more, and leaves when its runs
   * are done: nothing is aborted for the sake of a new process, or long tasks would never come to an end.
   */
  async run(signal: AbortSignal, retire?: AbortSignal): Promise<void> {
    const undo = this.#deps.ledger.onReady(() => {
      this.#flow.notified();
      this.#wake.hint();
    });
    const unwatch = this.#lease.watch(() => this.#fence());
    const unwatchOrders = this.#watch?.start();
    const either = retire ? AbortSignal.any([signal, retire]) : signal;
    try {
      while (!either.aborted) await this.#turn(either);
      this.#state = 'leaving';
      // Its runs may take long: no message should wait for that.
      this.#intake.leave();
      await this.#batches.over();
      const { idleTimeMs } = this.#deps.settings;
      while (!signal.aborted && this.#runs.size > 0) await this.#wake.sleep(idleTimeMs, signal);
    } finally {
      undo();
      this.#intake.leave();
      await this.#batches.over();
      await this.#drain();
      unwatchOrders?.();
      unwatch();
    }
  }

  /** One round: open an incarnation, find free slots, begin tasks. */
  async #turn(signal: AbortSignal): Promise<void> {
    this.#turnedAt = this.#deps.runtime.clock.monotonic();
    try {
      if (this.#incarnation.state === 'closed') await this.#open(signal);
      // Runs that end together free slots for one batch, and their settlements are sent with the request for it.
      await endOfTick();
      if (signal.aborted) return;
      const { free } = this.#flow;
      const canBegin = this.#incarnation.state === 'open' && !this.#lease.isOver;
      if (free <= 0 || !canBegin || this.#intake.isShut) await this.#waitForRoom(free, signal);
      else await this.#work(free, signal);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      await this.#storePace.wait(error, signal);
    }
  }

  async #waitForRoom(free: number, signal: AbortSignal): Promise<void> {
    await this.prefetch.giveBackLate();
    const isFull = free <= 0 && this.#intake.isPushedTo;
    const leavingMs = isFull ? this.#flow.untilLeaving() : Infinity;
    if (leavingMs === 0) this.#intake.rest();
    const lateMs = this.prefetch.maxSleepMs ?? Infinity;
    const { idleTimeMs } = this.#deps.settings;
    await this.#wake.sleep(Math.min(idleTimeMs, lateMs, leavingMs || Infinity), signal);
  }

  /** Begins the next batch, and waits if there is likely to be nothing more. */
  async #work(free: number, signal: AbortSignal): Promise<void> {
    const plan = this.#flow.planBatch(free);
    const isMore = await this.#take(plan, signal);
    const reply = await (isMore ? this.#batches.room() : this.#batches.last());
    const isIdle = reply?.begun.length === 0 && reply.answers.length === 0;
    const longestMs = Math.min(this.#deps.settings.idleTimeMs, this.#flow.longestNap(isIdle));
    // The only slot may have been reserved for the ledger: then the broker is asked next.
    if (!isIdle || plan.fromBroker === 0) return;
    const soonMs = Math.min(reply.nextDueMs ?? Infinity, this.#intake.maxSleepMs ?? Infinity);
    await this.#wake.sleep(Math.min(longestMs, Math.max(soonMs, SHORTEST_NAP_MS)), signal);
  }

  #isOpenAs(worker: string): boolean {
    return worker === this.#incarnation.id && this.#incarnation.state !== 'closed';
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { ledger, heartbeat, runtime, settings } = this.#deps;
    const { process, host, pid, leaseMs } = settings;
    const objectives = objectivesOf(this.#deps.handlers);
    const id = `${host}:${pid}:${runtime.random.token()}`;
    await untilReady(heartbeat, signal);
    if (signal.aborted) return;
    const sentAt = runtime.clock.monotonic();
    await ledger.open({ worker: id, process, host, pid, leaseMs, objectives });
    const runDeps = this.#createRunDeps(() => opened.state === 'closed');
    const opened: Incarnation = { id, state: 'closed', runDeps };
    this.#incarnation = opened;
    // Before anything is taken: a paused queue stays paused across restarts.
    await this.#watch?.look();
    opened.state = 'open';
    this.#lease.noteBeat();
    heartbeat.beatFor(id, sentAt, beat => this.#onBeat(beat));
    runtime.log.info({ worker: id }, 'worker open');
  }

  #createRunDeps(isClosed: () => boolean): RunDeps {
    const isGone = (): boolean => isClosed() || this.#state === 'giving-up';
    const isLeaseOver = (): boolean => this.#lease.isOver;
    return createRunDeps(this.#deps, { isGone, isLeaseOver, outages: this.#outages });
  }

  /** Begins the next batch; true: there is likely to be more, and the caller need not wait for the answer. */
  async #take({ size, fromBroker }: BatchPlan, signal: AbortSignal): Promise<boolean> {
    const { ledger, runtime, settings } = this.#deps;
    const queues = orderQueues(this.#intake.open, () => runtime.random.next());
    const { id: worker, runDeps } = this.#incarnation;
    const taken = fromBroker === 0 ? [] : await this.#intake.take(queues, fromBroker);
    const taker = { worker, ...this.#abilities };
    const deliveries = await this.#custody.accept(taken, taker, runDeps);
    if (deliveries.length > 0) await runtime.faultPoint('worker.taken-not-begun');
    const isAcknowledged = settings.ackOn === 'begin' && ledger.acknowledges === true;
    const hasSuspect = this.#batches.suspects > 0 || this.#runs.hasSuspect;
    const request: BeginRequest = {
      worker,
      run: runtime.random.token(),
      queues,
      limit: this.#flow.ledgerLimit(size - deliveries.length),
      suspects: hasSuspect ? 0 : 1,
      messages: deliveries.map(({ envelope }) => envelope),
      ...(isAcknowledged ? { tags: deliveries.map(({ delivery }) => delivery.tag) } : {}),
      ...(settings.runsAt ? { runsAt: settings.runsAt } : {}),
      ...this.#abilities,
    };
    this.#batches.add(size, request.suspects, this.#beginAll(request, deliveries, signal));
    const isFull = fromBroker > 0 && taken.length === fromBroker;
    // There was more than we asked for: the next batch is prefetched while this one is begun.
    if (isFull) this.prefetch.ask(queues);
    return isFull || this.#flow.wasBatchFull;
  }

  async #beginAll(
    request: BeginRequest,
    deliveries: readonly Beginnable[],
    signal: AbortSignal,
  ): Promise<BeginOpen | null> {
    const isLetGo = this.#deps.settings.ackOn === 'begin';
    // Until its tasks are started only this call knows the answer: a beat must not treat them as forgotten.
    this.#asked.add(request.run);
    const askedAt = this.#deps.runtime.clock.monotonic();
    try {
      const reply = await this.#begin(request, signal);
      if (reply instanceof Error || reply === null) {
        this.#flow.notBegun();
        return await this.#custody.setBack(deliveries, reply, askedAt);
      }
      const ofMessages = reply.answers.filter(answer => answer === 'begun').length;
      const byLedger = reply.begun.length - ofMessages;
      const asked = { messages: deliveries.length, ofLedger: request.limit, byLedger };
      this.#flow.begun(reply.begun, asked);
      const begun = { ...reply, given: deliveries, isAcknowledged: request.tags !== undefined };
      const byId = await this.#custody.answer(begun, this.#incarnation.runDeps);
      reportUnbegun(reply, request.worker, this.#incarnation.runDeps);
      const kept = isLetGo ? null : byId;
      const runs = reply.begun.map(task => this.#makeRun(task, kept?.get(task.id) ?? null));
      // An ack that fails brings copies back, to be acked then: the ledger has their tasks.
      const copies = isLetGo ? [...byId.values()] : [];
      const letGo = copies.length > 0 ? this.#deps.broker.ack(copies) : undefined;
      // Closed during the ack: other workers have these tasks, and nothing else stops runs that are not in the set yet.
      if (!this.#isOpenAs(request.worker)) for (const run of runs) run.stop('lost');
      for (const run of runs) this.#slots.enter(run);
      await letGo?.catch(() => undefined);
      return reply;
    } finally {
      this.#asked.delete(request.run);
    }
  }

  /** An error: nothing can be begun. Null: the caller needs no answer any more. */
  async #begin(request: BeginRequest, signal: AbortSignal): Promise<OpenReply | Error | null> {
    const isOurs = (): boolean => this.#isOpenAs(request.worker);
    const limits = { signal, isOurs, pace: this.#storePace };
    const reply = await beginOneByOne(request, this.#deps, limits);
    await this.#batches.turn();
    if (reply === null || reply instanceof Error) return reply;
    if (reply.status === 'closed') this.#close(request.worker);
    return reply.status === 'open' && isOurs() ? reply : null;
  }

  #makeRun(task: BegunTask, delivery: Delivery | null): Run {
    this.#begun += 1;
    const start = { task, delivery, draining: this.#draining.signal, onRan: this.#onRan };
    const run = new Run(start, this.#incarnation.runDeps);
    this.#runs.add(run);
    return run;
  }

  #start(run: Run): void {
    const done = (): void => {
      this.#runs.delete(run);
      run.leaveSlot();
      this.#wake.hint();
    };
    run.start().then(done, (error: unknown) => {
      void failRun(run, error, this.#incarnation.runDeps).then(done, done);
    });
  }

  /** The handler of a run has ended. */
  readonly #onRan = (ranMs: number, bytes: number): void => {
    this.#slots.leave();
    this.#flow.ran(ranMs, bytes);
    this.#wake.hint();
  };

  /** Compares the runs that the store lists as ours with those we have. */
  #onBeat(beat: Beat): void {
    if (!this.#isOpenAs(beat.worker)) return;
    if (beat.reply.status === 'closed') return this.#close(beat.worker);
    this.#incarnation.state = 'open';
    this.#lease.noteBeat();
    this.#runs.compare(beat.reply.runs, beat.sentAt, this.#deps.runtime.clock.monotonic());
    for (const ref of this.#runs.unknownAmong(beat.reply.runs ?? []))
      if (!this.#asked.has(ref.run)) void this.#incarnation.runDeps.settler.release.settle(ref);
    this.#wake.hint();
  }

  /** The store has closed this incarnation: other workers have its tasks now. */
  #close(worker: string): void {
    if (!this.#isOpenAs(worker)) return;
    this.#incarnation.state = 'closed';
    this.#deps.runtime.emit('worker:lease-lost', { worker });
    for (const run of this.#runs) run.stop('lost');
    // A worker that was presumed dead may have slept: the messages it holds may be done elsewhere, and forgotten.
    this.#intake.leave();
    this.#wake.hint();
  }

  #fence(): void {
    if (this.#incarnation.state !== 'open') return;
    this.#incarnation.state = 'fenced';
    const { runtime } = this.#deps;
    runtime.log.warn(
      { worker: this.#incarnation.id },
      'no beat was answered; handlers are aborted',
    );
    for (const run of this.#runs) run.stop('release');
    this.#intake.leave();
  }

  /** Lets runs come to an end, releases those that do not, and leaves. */
  async #drain(): Promise<void> {
    const { ledger, heartbeat, runtime } = this.#deps;
    const [{ log, emit, clock }, since] = [runtime, runtime.clock.monotonic()];
    this.#draining.abort();
    this.#slots.release();
    const given = this.prefetch.giveBack().catch(() => undefined);
    const released = await drainRuns(this.#runs, given, this.#deps);
    // The store does not answer: our tasks come back when our lease is over.
    this.#state = 'giving-up';
    await untilEnded(this.#runs);
    await this.#incarnation.runDeps.followUps.over();
    await heartbeat.stop();
    const { id: worker, state } = this.#incarnation;
    if (state !== 'closed') {
      const onError = (error: unknown): void => log.warn({ error }, 'leaving failed');
      // A failed deregistration costs a lease, not a task: nothing runs under this incarnation any more.
      await ledger.condemn({ kind: 'worker', worker }).catch(onError);
      this.#incarnation.state = 'closed';
    }
    emit('worker:drained', { worker, released, durationMs: roundMs(clock.monotonic() - since) });
  }
}

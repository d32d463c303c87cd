import { setMaxListeners } from 'node:events';
import { isUnavailable } from '../errors/error.ts';
import type { Delivery } from '../broker/broker.ts';
import type { BeginOpen, BeginRequest, BegunTask } from '../ledger/ledger.ts';
import type { ConsumerReport, ControlOrders } from '../ledger/control-store.ts';
import { sleep } from '../runtime/clock.ts';
import { endOfTick } from '../runtime/end-of-tick.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import { beginSurely, STORE_RETRY_MS } from './begin-surely.ts';
import { breakOff } from './break-off.ts';
import { ControlWatch } from './control-watch.ts';
import { acceptDeliveries, answerDeliveries, tellExpired, type Beginnable } from './deliveries.ts';
import { crashBudgetsOf } from './handler.ts';
import { untilReady, type Beat } from './heart.ts';
import { Intake } from './intake.ts';
import { LeaseWatch } from './watch-lease.ts';
import { orderQueues } from './order-queues.ts';
import { Seats } from './seats.ts';
import { Run, type RunDeps } from './run.ts';
import { RunSet } from './run-set.ts';
import { runKey } from './run-key.ts';
import { letRunsEnd, untilEnded } from './let-runs-end.ts';
import { Lanes } from './lanes.ts';
import { LedgerShare } from './ledger-share.ts';
import { makeRunDeps } from './make-run-deps.ts';
import { TakeAhead } from './take-ahead.ts';
import type { WorkerDeps, WorkerStatus } from './worker-deps.ts';

/** What is due and was not handed out is being handed to others: asking again at once would only burn the store. */
const SHORTEST_NAP_MS = 10;

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
  readonly #runs = new RunSet();
  readonly #asked = new Set<string>();
  readonly #wake: Wakeable;
  readonly #draining = new AbortController();
  readonly #ahead: TakeAhead;
  readonly #share: LedgerShare;
  readonly #lanes = new Lanes<BeginOpen | null>();
  readonly #seats: Seats<Run>;
  readonly #crashBudgets: Readonly<Record<string, number>>;
  readonly #watch: ControlWatch | null;
  readonly #intake: Intake;
  readonly #lease: LeaseWatch;
  #runDeps: RunDeps;
  #worker = '';
  #isFenced = false;
  /** Nothing could be begun: until that is over no message is taken, so each is given back once and not for ever. */
  #isLedgerAway = false;
  #isClosed = true;
  #isGivingUp = false;
  /** False: the only free place was for the ledger, and the broker may have something for it. */
  #hasAskedBroker = true;
  /** The last batch was as large as it could be. */
  #isPlenty = false;
  #begun = 0;
  #isLeaving = false;
  #turnedAt: number;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
    this.#crashBudgets = crashBudgetsOf(deps.handlers);
    this.#turnedAt = deps.runtime.clock.monotonic();
    this.#wake = new Wakeable(deps.runtime.clock);
    this.#lease = new LeaseWatch(deps.heart, deps.runtime.clock, deps.settings.leaseMs);
    const { concurrency } = deps.settings;
    this.#share = new LedgerShare(deps.runtime.clock, concurrency);
    this.#seats = new Seats(concurrency, deps.runtime.clock, run => this.#start(run));
    this.#ahead = new TakeAhead(deps.broker, deps.runtime.clock, concurrency);
    this.#intake = new Intake(this.#ahead, deps.settings.queues, this.#wake.hint);
    // Every run listens to it: many listeners are no leak here.
    setMaxListeners(0, this.#draining.signal);
    this.#runDeps = this.#makeRunDeps();
    const { control, runtime } = deps;
    const asked = { report: () => this.#report(), obey: (told: ControlOrders) => this.#obey(told) };
    this.#watch = control ? new ControlWatch({ control, runtime, ...asked }) : null;
  }

  /** How it is, for probes. A drain has an end of its own, so whoever drains makes progress. */
  get status(): WorkerStatus {
    const { broker, runtime } = this.#deps;
    const idleMs = this.#isLeaving ? 0 : runtime.clock.monotonic() - this.#turnedAt;
    const isOpen = !this.#isClosed && !this.#isFenced && !this.#isLeaving;
    const isAsking = isOpen && this.#free() > 0 && !this.#intake.isShut;
    const deafMs =
      isAsking && broker.silentMs ? broker.silentMs(Object.keys(this.#intake.open)) : 0;
    return { idleMs, isOpen, deafMs, running: this.#runs.size };
  }

  /** It has an incarnation, and takes tasks. */
  get isOpen(): boolean {
    return !this.#isClosed;
  }

  /** How many tasks it has begun since it lives. */
  get begun(): number {
    return this.#begun;
  }

  /** What is running or being settled. */
  get runs(): readonly Run[] {
    return [...this.#runs];
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
    const unwatch = this.#lease.watch(() => this.#fence());
    const unwatchOrders = this.#watch?.start();
    const either = retire ? AbortSignal.any([signal, retire]) : signal;
    try {
      while (!either.aborted) await this.#turn(either);
      this.#isLeaving = true;
      // What it still runs may take long: nobody's message waits for that.
      this.#intake.leave();
      await this.#lanes.over();
      while (!signal.aborted && this.#runs.size > 0)
        await this.#wake.sleep(this.#deps.settings.idleTimeMs, signal);
    } finally {
      undo();
      this.#intake.leave();
      await this.#lanes.over();
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
      // Runs that end together make room for one batch, and what they end with travels with the asking for it.
      await endOfTick();
      if (signal.aborted) return;
      const free = this.#free();
      if (free <= 0 || this.#isFenced || this.#lease.isOver || this.#intake.isShut) {
        await this.#ahead.giveBackLate();
        const sleepMs = Math.min(settings.idleTimeMs, this.#ahead.patienceMs ?? Infinity);
        await this.#wake.sleep(sleepMs, signal);
        return;
      }
      const most = Lanes.share(this.#seats.most(this.#ahead.early));
      const isMore = await this.#take(Math.min(free, most), signal);
      const reply = await (isMore ? this.#lanes.room() : this.#lanes.last());
      const isIdle = reply?.begun.length === 0 && reply.answers.length === 0;
      if (isIdle && this.#hasAskedBroker) {
        const dueMs = Math.max(reply.nextDueMs ?? Infinity, SHORTEST_NAP_MS);
        await this.#wake.sleep(Math.min(settings.idleTimeMs, dueMs), signal);
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      runtime.log.warn({ error }, 'the store cannot be used; nothing is begun');
      await sleep(runtime.clock, STORE_RETRY_MS, signal);
    }
  }

  #isOpenAs(worker: string): boolean {
    return worker === this.#worker && !this.#isClosed;
  }

  #free(): number {
    return this.#seats.free(this.#runs.size, this.#ahead.early) - this.#lanes.places;
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
    this.#lease.noteBeat();
    heart.beatFor(worker, sentAt, beat => this.#onBeat(beat));
    runtime.log.info({ worker }, 'worker open');
  }

  #makeRunDeps(): RunDeps {
    const worker = this.#worker;
    const isHopeless = (): boolean => this.#isClosed || this.#isGivingUp || this.#worker !== worker;
    return makeRunDeps(this.#deps, { isHopeless, isLeaseOver: () => this.#lease.isOver });
  }

  /** Has the next batch begun; true: there is likely to be more, and it need not wait for the answer. */
  async #take(free: number, signal: AbortSignal): Promise<boolean> {
    const { ledger, runtime, settings } = this.#deps;
    const queues = orderQueues(this.#intake.open, () => runtime.random.next());
    const wanted = this.#isLedgerAway ? 0 : free - this.#share.of(free);
    this.#hasAskedBroker = wanted > 0 || this.#isLedgerAway;
    const taken = wanted === 0 ? [] : await this.#intake.take(queues, wanted);
    const deliveries = await acceptDeliveries(taken, this.#runDeps).catch(
      async (error: unknown) => {
        // The ledger did not take what cannot run now: nobody else will answer for these messages.
        this.#isLedgerAway = true;
        await this.#giveBack(taken);
        throw error;
      },
    );
    if (deliveries.length > 0) await runtime.faultPoint('worker.taken-not-begun');
    const isAcknowledged = settings.ackOn === 'begin' && ledger.acknowledges === true;
    const hasSuspect = this.#lanes.suspects > 0 || this.#runs.hasSuspect;
    const request: BeginRequest = {
      worker: this.#worker,
      run: runtime.random.token(),
      queues,
      limit: this.#share.limit(free - deliveries.length),
      suspects: hasSuspect ? 0 : 1,
      messages: deliveries.map(({ envelope }) => envelope),
      ...(isAcknowledged ? { tags: deliveries.map(({ delivery }) => delivery.tag) } : {}),
      ...(settings.runsAt ? { runsAt: settings.runsAt } : {}),
      crashBudgets: this.#crashBudgets,
    };
    this.#lanes.add(free, request.suspects, this.#beginAll(request, deliveries, signal));
    const isFull = wanted > 0 && taken.length === wanted;
    // There was more than we asked for: the next batch comes while this one is begun.
    if (isFull) this.#ahead.ask(queues, this.#seats.stock(this.#ahead.early));
    return isFull || this.#isPlenty;
  }

  async #beginAll(
    request: BeginRequest,
    deliveries: readonly Beginnable[],
    signal: AbortSignal,
  ): Promise<BeginOpen | null> {
    const isLetGo = this.#deps.settings.ackOn === 'begin';
    // Until its tasks are started the answer is ours to know: a beat must not take them for forgotten ones.
    this.#asked.add(request.run);
    try {
      const reply = await this.#begin(request, signal);
      this.#isLedgerAway = reply === null;
      this.#isPlenty = reply?.begun.length === request.limit + deliveries.length;
      if (reply === null) {
        await this.#giveBack(deliveries.map(({ delivery }) => delivery));
        return null;
      }
      this.#ahead.noteBegun(reply.begun);
      const { answers } = reply;
      const ofMessages = answers.filter(answer => answer === 'begun').length;
      this.#share.note(request.limit, reply.begun.length - ofMessages);
      const begun = { given: deliveries, answers, isAcknowledged: request.tags !== undefined };
      const byId = await answerDeliveries(begun, this.#runDeps);
      tellExpired(reply.expired, this.#runDeps);
      const kept = isLetGo ? null : byId;
      const runs = reply.begun.map(task => this.#makeRun(task, kept?.get(task.id) ?? null));
      // An ack that fails brings copies back, to be acked then: the ledger has their tasks.
      const copies = isLetGo ? [...byId.values()] : [];
      const letGo = copies.length > 0 ? this.#deps.broker.ack(copies) : undefined;
      // Closed while the broker was told: others have these tasks, and nothing stops what is not among the runs yet.
      if (!this.#isOpenAs(request.worker)) for (const run of runs) run.stop('lost');
      for (const run of runs) this.#seats.enter(run);
      await letGo?.catch(() => undefined);
      return reply;
    } finally {
      this.#asked.delete(request.run);
    }
  }

  /** Nothing can be begun: what was taken ahead belongs to others as well. */
  async #giveBack(deliveries: readonly Delivery[]): Promise<void> {
    await Promise.all([this.#deps.broker.giveBack(deliveries), this.#ahead.giveBack()]);
  }

  /** Null: nothing can be begun. */
  async #begin(request: BeginRequest, signal: AbortSignal): Promise<BeginOpen | null> {
    const isOurs = (): boolean => this.#isOpenAs(request.worker);
    const reply = await beginSurely(request, this.#deps, { signal, isOurs });
    await this.#lanes.turn();
    if (reply?.status === 'closed') this.#close(request.worker);
    return reply?.status === 'open' && isOurs() ? reply : null;
  }

  #makeRun(task: BegunTask, delivery: Delivery | null): Run {
    this.#begun += 1;
    const start = { task, delivery, draining: this.#draining.signal, onRan: this.#onRan };
    const run = new Run(start, this.#runDeps);
    this.#runs.add(run);
    return run;
  }

  #start(run: Run): void {
    const done = (): void => {
      this.#runs.delete(run);
      run.leavePlace();
      this.#wake.hint();
    };
    run.start().then(done, (error: unknown) => {
      void breakOff(run, error, this.#runDeps).then(done, done);
    });
  }

  /** The handler of a run has ended. */
  readonly #onRan = (ranMs: number, bytes: number): void => {
    this.#seats.leave();
    this.#ahead.noteRun(ranMs, bytes);
    this.#wake.hint();
  };

  /** Compares what the store says we run with what we hold. */
  #onBeat(beat: Beat): void {
    if (!this.#isOpenAs(beat.worker)) return;
    if (beat.reply.status === 'closed') return this.#close(beat.worker);
    this.#isFenced = false;
    this.#lease.noteBeat();
    const stored = new Set(beat.reply.runs.map(runKey));
    for (const run of this.#runs) {
      run.acknowledgeInTime(this.#deps.runtime.clock.monotonic());
      // Begun after the beat was sent: the answer cannot know of it.
      if (run.startedAt < beat.sentAt && !stored.has(runKey(run.task))) run.stop('lost');
    }
    for (const ref of this.#runs.strangersAmong(beat.reply.runs))
      if (!this.#asked.has(ref.run)) void this.#runDeps.settler.release.settle(ref);
    this.#wake.hint();
  }

  /** The store has closed this incarnation: its tasks are others' now. */
  #close(worker: string): void {
    if (!this.#isOpenAs(worker)) return;
    this.#isClosed = true;
    this.#deps.runtime.emit('worker:lease-lost', { worker });
    this.#deps.runtime.log.warn({ worker }, 'lease lost; opening a new incarnation');
    for (const run of this.#runs) run.stop('lost');
    this.#wake.hint();
  }

  #fence(): void {
    if (this.#isFenced || this.#isClosed) return;
    this.#isFenced = true;
    const worker = this.#worker;
    this.#deps.runtime.log.warn({ worker }, 'no beat was answered; handlers are aborted');
    for (const run of this.#runs) run.stop('release');
    this.#intake.leave();
  }

  /** Lets what runs come to an end, releases what does not, and leaves. */
  async #drain(): Promise<void> {
    const { log, emit } = this.#deps.runtime;
    const { ledger, heart } = this.#deps;
    this.#draining.abort();
    this.#seats.release();
    const given = this.#ahead.giveBack().catch(() => undefined);
    const released = await letRunsEnd(this.#runs, given, this.#deps);
    // The store does not answer: what we run comes back when our lease is over.
    this.#isGivingUp = true;
    await untilEnded(this.#runs);
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

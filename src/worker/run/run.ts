import type { Broker, Delivery } from '../../broker/broker.ts';
import type {
  AfterEntry,
  BegunTask,
  FollowUp,
  RaiseReply,
  RunRef,
  RunsAt,
  StepStatus,
  WorkerLedger,
  WorkflowLedger,
} from '../../ledger/ledger.ts';
import { childrenAfter } from '../../ledger/follow-up-log.ts';
import type { Entry, Refused } from '../../admission/reservations.ts';
import type { Redact } from '../../task/redact.ts';
import type { BrokerAnswers } from '../intake/broker-answers.ts';
import { type KeyClaim, type KeyDeps, type KeyHold, claimKey } from './claim-key.ts';
import type { ResultStore } from '../../result/result-store.ts';
import type { Checkpoints } from '../effects/checkpoints.ts';
import { type FollowUpSender, followDeps, owedOfDeath, planFollowUps } from './follow-up-sender.ts';
import { rescueRun } from './rescue-run.ts';
import { type ExecuteDeps, execute } from './execute.ts';
import { type Gate, hasExpired } from './admit.ts';
import { stopped } from '../isolate/run-in-isolate.ts';
import type { RunObserver } from '../run-observer.ts';
import type { RunLedger } from './run-scope.ts';
import { endOf, RunStop, type Settlement, type StopReason, withoutInput } from './settlement.ts';
import type { RunTrace } from '../../telemetry/traces.ts';
import { SenderNotifier } from './sender-notifier.ts';
import type { Outages } from './outages.ts';
import {
  type SettleStatus,
  type Settler,
  buryUnstorable,
  reportCheckpoint,
  reportSettled,
  reportStarted,
  settleRun,
} from './settler.ts';

export interface RunDeps extends ExecuteDeps {
  readonly ledger: WorkerLedger & WorkflowLedger;
  readonly checkpoints: Checkpoints;
  readonly broker: Broker;
  readonly settler: Settler;
  readonly answers: BrokerAnswers;
  readonly outages: Outages;
  readonly followUps: FollowUpSender;
  readonly keys: KeyDeps;
  readonly dedupMsOf: (envelope: BegunTask['envelope']) => number;
  readonly resultMs: number;
  /** Null: people see the unredacted arguments of follow-ups. */
  readonly redact: Redact | null;
  readonly observer?: RunObserver;
  /** Needed where senders are answered through the broker. */
  readonly results?: ResultStore;
  /** Left out: any number of tasks may run at once. */
  readonly gate?: Gate;
  /** Left out: senders who wait for a result are not notified that their task has begun. */
  readonly runsAt?: RunsAt;
}

/** No broker's copy is held for longer: RabbitMQ closes the channel of a message held for half an hour. */
const LONGEST_HOLD_MS = 600_000;

export interface RunStart {
  readonly task: BegunTask;
  /** The broker's copy, if there is one that is not acknowledged yet. */
  readonly delivery: Delivery | null;
  readonly draining: AbortSignal;
  /** Called when the handler has ended, before the run is settled: its slot is free for another run. */
  readonly onRan: (ranMs: number, bytes: number) => void;
}

type Admitted = Extract<Entry, { readonly isIn: true }>;

const NOTHING: readonly never[] = [];
const RELEASE: Settlement = { kind: 'release' };
const DROP: Settlement = { kind: 'drop' };
const NOT_STARTED = Promise.resolve();

/** One run of one task: executes, settles, and only then acknowledges the broker's copy. */
export class Run implements RunLedger {
  readonly task: BegunTask;
  readonly startedAt: number;
  /** Its index in `RunSet`. */
  index = 0;
  #finished = NOT_STARTED;
  /** Null: its handler has not ended. */
  #ranMs: number | null = null;
  /** For a slot, limits and the key of the task: it does not count as run time of the handler. */
  #waitedMs = 0;
  #isGivenBack = false;
  #isSettled = false;
  #delivery: Delivery | null;
  readonly #deps: RunDeps;
  readonly #stop: RunStop;
  readonly #onRan: (ranMs: number, bytes: number) => void;
  /** Created when there is something to send: most runs send nothing. */
  #notifier: SenderNotifier | null = null;
  /** The run as the ledger knows it now. */
  #ref: RunRef;
  readonly #trace: RunTrace | undefined;

  constructor({ task, delivery, draining, onRan }: RunStart, deps: RunDeps) {
    this.task = task;
    this.#ref = task;
    this.#delivery = delivery;
    this.#deps = deps;
    this.#stop = new RunStop(draining);
    this.#onRan = onRan;
    this.startedAt = deps.runtime.clock.monotonic();
    this.#trace = deps.runtime.traces?.begun(task);
  }

  /** Separate from the constructor, so that the worker knows a whole batch before the first of its handlers starts. */
  start(): Promise<void> {
    return (this.#finished = this.#run());
  }

  get finished(): Promise<void> {
    return this.#finished;
  }

  /** It has no slot yet. */
  get isWaiting(): boolean {
    return this.#finished === NOT_STARTED;
  }

  /** The broker's copy has been acknowledged, or there was none. */
  get isAcknowledged(): boolean {
    return this.#delivery === null;
  }

  /** Neither finished nor failed. */
  get isGivenBack(): boolean {
    return this.#isGivenBack;
  }

  /** The ledger has its settlement. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Ends the run from outside; the first reason counts. */
  stop(reason: StopReason): void {
    this.#stop.stop(reason);
  }

  get stopping(): RunStop {
    return this.#stop;
  }

  /** After `begin` the ledger has the task; a copy that was held for too long is acknowledged while the task still runs. */
  acknowledgeInTime(now: number): void {
    if (this.#delivery !== null && now - this.startedAt > LONGEST_HOLD_MS)
      void this.#acknowledge('ok');
  }

  /**
   * admit ─► claim key ─► start ─► execute ─► keep ─► settle ─► report ─► acknowledge ─► follow up
   *
   * A step that has nothing to wait for returns no promise: one for each of them would cost more than a short handler.
   */
  async #run(): Promise<void> {
    const { runtime, observer, followUps, checkpoints } = this.#deps;
    const isOver =
      this.#stop.reason !== null || hasExpired(this.task, this.startedAt, runtime.clock);
    if (isOver) return void (await this.turnBack(stopped(this.#stop)));
    const revoking = observer?.starting(this.task) ?? null;
    if (revoking !== null && (await revoking)) return void (await this.turnBack(DROP));
    const admitting = this.#admit();
    const entry = admitting === null ? null : await admitting;
    if (entry === 'turned-away') return;
    const begun = runtime.faultPoint('worker.begun-not-started');
    if (begun) await begun;

    const claiming = claimKey({ task: this.task, stop: this.#stop, ledger: this }, this.#deps);
    const claim = claiming instanceof Promise ? await claiming : claiming;
    const starting = this.#reportStart(claim);
    if (starting) await starting;

    const executing = claim.kind === 'run' ? this.#execute(claim.hold) : claim.settlement;
    const executed = executing instanceof Promise ? await executing : executing;
    const postponing = this.#postpone(this.#redacted(executed));
    const ran = postponing instanceof Promise ? await postponing : postponing;
    const ranMs = this.leaveSlot();
    this.#trace?.ended(endOf(ran));
    const ended = this.#endedAt(ran);
    if (ended) await ended;

    const hold = claim.kind === 'run' ? claim.hold : null;
    const kept = hold === null ? 'kept' : await this.#keep(ran, hold);
    // It is unknown whether the result is stored: then the run is not committed.
    const outcome = kept === 'unknown' ? RELEASE : ran;
    const { settlement, followUps: planned } = planFollowUps(outcome, this.task, this.#followed);
    if (settlement.kind === 'fail') await this.#reportRetry(settlement);
    const answer = kept === 'refused' ? kept : await this.#settle(settlement, planned);
    const status =
      answer === 'refused' ? await buryUnstorable(this.#deps.settler, this.#ref) : answer;
    const owed = status === 'ok' ? this.#owed(settlement, planned) : NOTHING;
    const settledAt = owed.length > 0 ? runtime.clock.monotonic() : 0;
    // Only if the ledger has ended the run: a handler that goes on after a lost run counts until it is swept.
    if (entry !== null && status === 'ok') this.#deps.gate?.leave(entry.reservations);
    // Before any other await: the next run of a task may begin meanwhile, and would be reported first.
    this.#reportEnd(status, settlement, claim, ranMs);
    const isDone = status === 'ok' && settlement.kind === 'commit';
    const forgotten = checkpoints.forget(this.task, isDone);
    if (forgotten) await forgotten;

    if (this.#delivery !== null) await this.#acknowledge(status);
    if (status !== 'ok') return await this.#lose(status, settlement);
    if (hold !== null) await hold.ended(settlement);
    if (owed.length > 0) followUps.send(owed, settledAt, followDeps(this.#followed));
  }

  /** Null: no limit applies to the task, and no store has to be asked. */
  #admit(): Promise<Admitted | 'turned-away'> | null {
    const entering = this.#deps.gate?.enter(this.task) ?? null;
    return entering === null
      ? null
      : entering.then(async entry => {
          if ('kind' in entry) await this.turnBack(entry);
          else if (entry.isIn) return entry;
          else await this.#turnAway(entry);
          return 'turned-away';
        });
  }

  /** Sends STARTED before the handler runs, so that it cannot overtake SUCCESS. */
  #reportStart(claim: KeyClaim): Promise<void> | undefined {
    // A task that waits for another one has not started.
    if (claim.kind === 'wait') return undefined;
    const { runtime, observer, runsAt } = this.#deps;
    this.#waitedMs = runtime.clock.monotonic() - this.startedAt;
    this.#trace?.started();
    reportStarted(this.task, this.#waitedMs, runtime);
    observer?.started(this.task);
    const isAsked = runsAt !== undefined && claim.kind === 'run';
    return isAsked ? this.#sender().notify({ status: 'STARTED', runsAt }) : undefined;
  }

  /** Sends RETRY, if the task is going to run again. */
  async #reportRetry({ delayMs, error }: Extract<Settlement, { kind: 'fail' }>): Promise<void> {
    if (delayMs !== null) await this.#sender().notify({ status: 'RETRY', error });
  }

  /** The follow-ups that were written with the settlement, and the one that the ledger has written by itself. */
  #owed(settlement: Settlement, planned: readonly FollowUp[]): readonly AfterEntry[] {
    const ofDeath = owedOfDeath(settlement, this.task, this.#ref.epoch, this.#deps);
    return ofDeath.length === 0 ? planned : [...planned, ...ofDeath];
  }

  #reportEnd(status: StepStatus, settlement: Settlement, claim: KeyClaim, endedMs: number): void {
    const { runtime, observer } = this.#deps;
    const times = { waitedMs: this.#waitedMs, ranMs: endedMs - this.#waitedMs };
    const isStarted = claim.kind !== 'wait';
    if (status !== 'ok') {
      if (isStarted) observer?.lost(this.task);
      return;
    }
    if (isStarted) observer?.settled(this.task, settlement, times.ranMs);
    reportSettled(this.task, settlement, times, runtime);
    if (claim.kind !== 'answer' || claim.original === this.task.id) return;
    const { id, envelope } = this.task;
    const { key, original } = claim;
    const { name, queue } = envelope;
    runtime.emit('task:deduplicated', { id, name, queue, key, original });
  }

  /** The limits of its task are reached: it comes again. */
  async #turnAway(refused: Refused): Promise<void> {
    const status = await this.turnBack({ kind: 'release', delayMs: refused.retryAfterMs });
    if (status === 'ok') await this.#deps.gate?.wait(this.task, refused);
  }

  /** The run has not started and does not, or it was broken off. */
  async turnBack(end: Settlement): Promise<StepStatus> {
    const settlement = await this.#postpone(end);
    this.leaveSlot();
    this.#trace?.ended(endOf(settlement));
    const answer = await this.#settle(settlement, []);
    const status = answer === 'refused' ? 'stale' : answer;
    await this.#acknowledge(status);
    if (status !== 'ok') await this.#lose(status, settlement);
    return status;
  }

  #postpone(settlement: Settlement): Settlement | Promise<Settlement> {
    return this.#deps.outages.postpone(this.task, settlement, this.#stop);
  }

  /** It was not the rightful run any more. */
  async #lose(status: Exclude<StepStatus, 'ok'>, { kind: settlement }: Settlement): Promise<void> {
    const { id, epoch, envelope } = this.task;
    await this.#notifier?.sendEndAgain();
    await rescueRun(this.task, this.#stop.draining, this.#deps);
    if (settlement === 'drop') return;
    const { name, queue } = envelope;
    this.#deps.runtime.emit('task:stale', { id, name, queue, epoch, status, settlement });
  }

  /** Its slot is free for another run: the handler has ended, or the run has in some other way. The first call counts. */
  leaveSlot(): number {
    if (this.#ranMs === null) {
      this.#ranMs = this.#deps.runtime.clock.monotonic() - this.startedAt;
      this.#onRan(this.#ranMs, this.task.envelope.body.length);
    }
    return this.#ranMs;
  }

  // The caller knows an earlier epoch: a door of this run may have raised it since.

  async checkpoint(_: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const status = await this.#deps.checkpoints.checkpoint(this.#ref, seq, data);
    if (status === 'ok') reportCheckpoint(this.task, data.length, this.#deps.runtime);
    return status;
  }

  async raiseEpoch(_: RunRef, above: number): Promise<RaiseReply> {
    const reply = await this.#deps.ledger.raiseEpoch(this.#ref, above);
    const { id, epoch, run } = this.#ref;
    // A run whose epoch has not changed is committed with its original reference, which costs a ledger less.
    if (reply.status === 'ok' && reply.epoch !== epoch) this.#ref = { id, epoch: reply.epoch, run };
    return reply;
  }

  /** People see no input in what a run ended with, if there is a redactor. */
  #redacted(settlement: Settlement): Settlement {
    return this.#deps.redact === null ? settlement : withoutInput(settlement);
  }

  #execute(hold: KeyHold | null): Settlement | Promise<Settlement> {
    const effect = hold?.effect ?? null;
    const { epoch } = this.#ref;
    // Raised on the way here: the handler must see no lower fence.
    const task = epoch === this.task.epoch ? this.task : { ...this.task, epoch };
    const trace = this.#trace;
    return execute({ task, stop: this.#stop, ledger: this, effect, trace }, this.#deps);
  }

  #sender(): SenderNotifier {
    const isOver = (): boolean => this.#stop.reason !== null || this.#deps.isLeaseOver?.() === true;
    return (this.#notifier ??= new SenderNotifier(this.task, this.#deps, isOver));
  }

  /** The gap between the end of a handler and its settlement in the ledger. */
  #endedAt({ kind }: Settlement): Promise<void> | undefined {
    const { faultPoint } = this.#deps.runtime;
    if (kind === 'commit') return faultPoint('worker.ran-not-committed');
    return kind === 'fail' ? faultPoint('worker.failed-not-reported') : undefined;
  }

  /** Stores the result for duplicates first, if the task is idempotent. */
  async #keep(ran: Settlement, hold: KeyHold): Promise<'kept' | 'refused' | 'unknown'> {
    if (ran.kind !== 'commit' || ran.outcome.kind !== 'done') return 'kept';
    const kept = await hold.complete(ran.value, this.#stop.signal);
    if (kept === 'kept') await this.#deps.runtime.faultPoint('worker.kept-not-committed');
    return kept;
  }

  #settle(
    settlement: Settlement,
    after: readonly FollowUp[],
  ): SettleStatus | Promise<SettleStatus> {
    const { settler, dedupMsOf, resultMs } = this.#deps;
    this.#isSettled = true;
    if (settlement.kind === 'release') this.#isGivenBack = true;
    const dedupMs = settlement.kind === 'commit' ? dedupMsOf(this.task.envelope) : 0;
    const children = this.#childrenOf(settlement, after);
    const terms = { after, dedupMs, resultMs, children };
    const settle = () => settleRun(settler, this.#ref, settlement, terms);
    return this.#trace ? this.#trace.settle(settle) : settle();
  }

  /** What follows continues its trace. */
  get #followed(): Parameters<typeof followDeps>[0] {
    return this.#trace ? { ...this.#deps, trace: this.#trace.headers } : this.#deps;
  }

  /** Only a ledger where Celery reads our results keeps them. */
  #childrenOf({ kind }: Settlement, after: readonly FollowUp[]): string | null {
    const isAsked = kind === 'commit' && after.length > 0 && this.#deps.ledger.countsWithCelery;
    return isAsked ? childrenAfter(this.task.envelope) : null;
  }

  /** The only code that decides about the broker's copy of a task that was begun. */
  #acknowledge(status: StepStatus): Promise<void> | undefined {
    const delivery = this.#delivery;
    if (!delivery) return;
    this.#delivery = null;
    const { answers, runtime } = this.#deps;
    // Settled by us: the ledger has it. Otherwise all we know is that we do not own it: only the ledger knows whether this
    // is a copy or the last one.
    const answer = (): Promise<void> =>
      status === 'ok' ? answers.ack(delivery) : answers.requeue(delivery);
    const settled = runtime.faultPoint('worker.committed-not-acked');
    return settled ? settled.then(answer) : answer();
  }
}

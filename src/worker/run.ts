import type { Broker, Delivery } from '../broker/broker.ts';
import { carryOut } from '../ledger/carry-out.ts';
import { afterDone, afterEnded, isFollowed, type FollowDeps } from '../ledger/follow-up.ts';
import {
  endedKey,
  type AfterEntry,
  type BegunTask,
  type FollowUp,
  type Ledger,
  type LiftReply,
  type RunRef,
  type RunsAt,
  type StepStatus,
} from '../ledger/ledger.ts';
import type { Refused } from '../admission/places.ts';
import { NO_KEYS } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';
import type { BrokerAnswers } from './broker-answers.ts';
import { claimKey, type KeyClaim, type KeyDeps } from './claim-key.ts';
import type { ResultStore } from '../result/result-store.ts';
import type { Checkpoints } from './checkpoints.ts';
import { rescueRun } from './rescue-run.ts';
import { execute, type ExecuteDeps } from './execute.ts';
import { expiredMeanwhile } from './expired-meanwhile.ts';
import type { KeyHold } from './key-hold.ts';
import type { Gate } from './gate.ts';
import { stopped } from './run-in-room.ts';
import type { RunObserver } from './run-observer.ts';
import type { RunLedger } from './run-scope.ts';
import { RunStop, type StopReason } from './run-stop.ts';
import { SenderWord } from './sender-word.ts';
import type { Settlement } from './settlement.ts';
import type { Settler, SettleStatus } from './settler.ts';
import { tellSettled } from './tell-settled.ts';

export interface RunDeps extends ExecuteDeps {
  readonly ledger: Ledger;
  readonly checkpoints: Checkpoints;
  readonly broker: Broker;
  readonly settler: Settler;
  readonly answers: BrokerAnswers;
  readonly keys: KeyDeps;
  readonly dedupMs: number;
  readonly resultMs: number;
  /** Null: people see the arguments of follow-ups themselves. */
  readonly redact: Redact | null;
  readonly observer?: RunObserver;
  /** Needed where senders are answered through the broker. */
  readonly results?: ResultStore;
  /** Left out: any number of tasks may run at once. */
  readonly gate?: Gate;
  /** Left out: senders who wait for an answer are not told that their task has begun. */
  readonly runsAt?: RunsAt;
}

/** No broker's copy is held for longer: RabbitMQ closes the channel of a message held for half an hour. */
const LONGEST_HOLD_MS = 600_000;
/** Younger than what a resurrector takes for forgotten. */
const FOLLOW_WITHIN_MS = 2_000;

export interface RunStart {
  readonly task: BegunTask;
  /** The broker's copy, where it has one that nobody has let go. */
  readonly delivery: Delivery | null;
  readonly draining: AbortSignal;
  /** Called when the handler has ended, before the run is settled: its place is free for another. */
  readonly onRan: (ranMs: number, bytes: number) => void;
}

const NOTHING: readonly never[] = [];
const NOT_STARTED = Promise.resolve();

/** One run of one task: executes, settles, and only then lets go of the broker's copy. */
export class Run implements RunLedger {
  readonly task: BegunTask;
  readonly startedAt: number;
  /** Of `RunSet`: where it stands there. */
  place = 0;
  #finished = NOT_STARTED;
  /** Null: its handler has not ended. */
  #ranMs: number | null = null;
  #isGivenBack = false;
  #isSettled = false;
  #delivery: Delivery | null;
  readonly #deps: RunDeps;
  readonly #stop: RunStop;
  readonly #onRan: (ranMs: number, bytes: number) => void;
  /** Made when there is something to say: most runs say nothing. */
  #word: SenderWord | null = null;
  /** The run as the ledger knows it now. */
  #ref: RunRef;

  constructor({ task, delivery, draining, onRan }: RunStart, deps: RunDeps) {
    this.task = task;
    this.#ref = task;
    this.#delivery = delivery;
    this.#deps = deps;
    this.#stop = new RunStop(draining);
    this.#onRan = onRan;
    this.startedAt = deps.runtime.clock.monotonic();
  }

  /** Apart from making it, so that a whole batch is known to the worker before the first of its handlers starts. */
  start(): Promise<void> {
    return (this.#finished = this.#run());
  }

  get finished(): Promise<void> {
    return this.#finished;
  }

  /** The broker's copy has been let go, or there was none. */
  get isAcknowledged(): boolean {
    return this.#delivery === null;
  }

  /** Neither finished nor failed. */
  get isGivenBack(): boolean {
    return this.#isGivenBack;
  }

  /** The ledger was told what it ended with. */
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

  /** From `begin` on the ledger has the task; a copy that was held for too long is let go while it still runs. */
  acknowledgeInTime(now: number): void {
    if (this.#delivery !== null && now - this.startedAt > LONGEST_HOLD_MS)
      void this.#acknowledge('ok');
  }

  /**
   * Waits only where there is something to wait for: a promise for each of these steps would cost more than a short
   * handler.
   */
  async #run(): Promise<void> {
    const { runtime, observer, gate } = this.#deps;
    const isOver =
      this.#stop.reason !== null || expiredMeanwhile(this.task, this.startedAt, runtime.clock);
    if (isOver) return void (await this.turnBack(stopped(this.#stop)));
    // For a place: how long it ran is told without that.
    const waitedMs = observer ? runtime.clock.monotonic() - this.startedAt : 0;
    const entering = gate ? gate.enter(this.task) : null;
    const entry = entering === null ? null : await entering;
    if (entry !== null && !entry.isIn) return await this.#turnAway(entry);
    const begun = runtime.faultPoint('worker.begun-not-started');
    if (begun) await begun;
    const claiming = claimKey(this.task, this.#stop, this.#deps);
    const claim = claiming instanceof Promise ? await claiming : claiming;
    // What waits for another task has not started.
    const isStarted = claim.kind !== 'wait';
    if (isStarted) this.#tellStart();
    const { runsAt } = this.#deps;
    // Before the handler: word of the end must not come first.
    if (runsAt && claim.kind === 'run') await this.#sender().tell({ status: 'STARTED', runsAt });
    const hold = claim.kind === 'run' ? claim.hold : null;
    const running = claim.kind === 'run' ? this.#execute(hold) : claim.settlement;
    const ran = running instanceof Promise ? await running : running;
    const ranMs = this.leavePlace();
    const ended = this.#endedAt(ran);
    if (ended) await ended;
    const kept = hold === null ? 'kept' : await this.#keep(ran, hold);
    // Nobody knows whether the result is there: what is not sure to be kept is not committed.
    const settlement: Settlement = kept === 'unknown' ? { kind: 'release' } : ran;
    if (settlement.kind === 'fail' && settlement.delayMs !== null)
      await this.#sender().tell({ status: 'RETRY', error: settlement.error });
    const followUps = this.#followUps(settlement);
    const answer = kept === 'refused' ? kept : await this.#settle(settlement, followUps);
    const status = answer === 'refused' ? await this.#giveUp() : answer;
    const owed = status === 'ok' ? [...followUps, ...this.#ended(settlement)] : NOTHING;
    const settledAt = owed.length > 0 ? runtime.clock.monotonic() : 0;
    // Only what the ledger has ended: a handler that goes on beside a run that was lost still counts until it is swept.
    if (entry !== null && status === 'ok') gate?.leave(entry.places);
    // Before anything else is waited for: the next run of a task may begin meanwhile, and would be told of first.
    if (status === 'ok') {
      if (isStarted) observer?.settled(this.task, settlement, ranMs - waitedMs);
      tellSettled(this.task, settlement, runtime.emit);
      if (claim.kind === 'answer' && claim.original !== this.task.id) this.#tellDuplicate(claim);
    } else if (isStarted) observer?.lost(this.task);
    const isDone = status === 'ok' && settlement.kind === 'commit';
    const forgotten = this.#deps.checkpoints.forget(this.task, isDone);
    if (forgotten) await forgotten;
    if (this.#delivery !== null) await this.#acknowledge(status);
    if (status !== 'ok') return await this.#lose(status, settlement);
    if (hold !== null) await hold.ended(settlement);
    if (owed.length > 0) await this.#follow(owed, settledAt);
  }

  /** The limits of its task have no room: it comes again. */
  async #turnAway(refused: Refused): Promise<void> {
    const status = await this.turnBack({ kind: 'release', delayMs: refused.retryAfterMs });
    if (status === 'ok') await this.#deps.gate?.wait(this.task, refused);
  }

  /** It has not started, and does not; or it broke off. */
  async turnBack(settlement: Settlement): Promise<StepStatus> {
    this.leavePlace();
    const answer = await this.#settle(settlement, []);
    const status = answer === 'refused' ? 'stale' : answer;
    await this.#acknowledge(status);
    if (status !== 'ok') await this.#lose(status, settlement);
    return status;
  }

  /** It was not the rightful run any more. */
  async #lose(status: StepStatus, { kind: settlement }: Settlement): Promise<void> {
    const { id: task, epoch } = this.task;
    await this.#word?.tellEndAgain();
    await rescueRun(this.task, this.#stop.draining, this.#deps);
    if (settlement === 'drop') return;
    const fields = { task, epoch, status, settlement };
    this.#deps.runtime.log.warn(fields, 'not the rightful run any more');
  }

  /** Its place is free for another: the handler has ended, or the run has in some other way. The first time counts. */
  leavePlace(): number {
    if (this.#ranMs === null) {
      this.#ranMs = this.#deps.runtime.clock.monotonic() - this.startedAt;
      this.#onRan(this.#ranMs, this.task.envelope.body.length);
    }
    return this.#ranMs;
  }

  #tellStart(): void {
    const { runtime, observer } = this.#deps;
    const { id, envelope, epoch, failures } = this.task;
    const { name, queue } = envelope;
    runtime.emit('task:started', { id, name, queue, epoch, attempt: failures + 1 });
    observer?.started(this.task);
  }

  // Whoever asks knows the epoch of some time ago: a door of this run may have been lifted since.

  checkpoint(_: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    return this.#deps.checkpoints.checkpoint(this.#ref, seq, data);
  }

  async lift(_: RunRef, above: number): Promise<LiftReply> {
    const reply = await this.#deps.ledger.lift(this.#ref, above);
    const { id, epoch, run } = this.#ref;
    // One that stays as it was begun is committed as such, which costs a ledger less.
    if (reply.status === 'ok' && reply.epoch !== epoch) this.#ref = { id, epoch: reply.epoch, run };
    return reply;
  }

  #execute(hold: KeyHold | null): Settlement | Promise<Settlement> {
    const effect = hold?.effect ?? null;
    const start = { task: this.task, stop: this.#stop, ledger: this, effect };
    return execute(start, this.#deps);
  }

  #sender(): SenderWord {
    const isOver = (): boolean => this.#stop.reason !== null || this.#deps.isLeaseOver?.() === true;
    return (this.#word ??= new SenderWord(this.task, this.#deps, isOver));
  }

  /** The gap between the end of a handler and its being told. */
  #endedAt({ kind }: Settlement): Promise<void> | undefined {
    const { faultPoint } = this.#deps.runtime;
    if (kind === 'commit') return faultPoint('worker.ran-not-committed');
    return kind === 'fail' ? faultPoint('worker.failed-not-told') : undefined;
  }

  /** Keeps the result for duplicates first, where there may be some. */
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
    const { settler, dedupMs, resultMs } = this.#deps;
    const ref = this.#ref;
    this.#isSettled = true;
    switch (settlement.kind) {
      case 'commit': {
        const { outcome } = settlement;
        return settler.commit.settle({ ref, outcome, after, dedupMs, resultMs });
      }
      case 'fail': {
        const { error, delayMs, reason, isCrash } = settlement;
        return settler.fail.settle({ ref, error, delayMs, reason, isCrash });
      }
      case 'bury': {
        const { reason, error } = settlement;
        return settler.bury.settle({ kind: 'run', ref, reason, error });
      }
      case 'release':
        this.#isGivenBack = true;
        return settler.release.settle(
          settlement.delayMs === undefined ? ref : { ...ref, delayMs: settlement.delayMs },
        );
      case 'drop':
        return 'stale';
    }
  }

  /** What the store can never take must not come back for ever: it ends as a dead letter. */
  async #giveUp(): Promise<StepStatus> {
    const message = 'the store refused what the run ended with; see the log of the worker';
    const answer = await this.#deps.settler.bury.settle({
      kind: 'run',
      ref: this.#ref,
      reason: 'ERR_INVARIANT',
      error: { type: 'ERR_INVARIANT', message, traceback: '' },
    });
    return answer === 'absent' ? 'absent' : 'stale';
  }

  /** The one place that decides about the broker's copy of a task that was begun. */
  #acknowledge(status: StepStatus): Promise<void> | undefined {
    const delivery = this.#delivery;
    if (!delivery) return;
    this.#delivery = null;
    const { answers, runtime } = this.#deps;
    // Settled by us: the ledger has it. Otherwise all we know is that it is not ours; whoever gets the copy next
    // finds out from the ledger whether it is a copy or the only one left.
    const answer = (): Promise<void> =>
      status === 'ok' ? answers.ack(delivery) : answers.giveBack(delivery);
    const settled = runtime.faultPoint('worker.committed-not-acked');
    return settled ? settled.then(answer) : answer();
  }

  #tellDuplicate({ key, original }: Extract<KeyClaim, { readonly kind: 'answer' }>): void {
    const { id, envelope } = this.task;
    const { name, queue } = envelope;
    this.#deps.runtime.emit('task:deduplicated', { id, name, queue, key, original });
  }

  #isFollowed(): boolean {
    return isFollowed(this.task.envelope, { answers: this.#deps.broker.reply !== undefined });
  }

  /** What the commit writes into `after`. */
  #followUps(settlement: Settlement): readonly FollowUp[] {
    const { envelope, epoch } = this.task;
    if (settlement.kind !== 'commit' || !this.#isFollowed()) return NOTHING;
    const deps = this.#followDeps();
    const { outcome, value } = settlement;
    return outcome.kind === 'done'
      ? afterDone(envelope, value, deps)
      : afterEnded({ envelope, how: 'discarded', epoch, why: outcome.why }, deps);
  }

  /** What the store has written into `after` by itself, because the task is dead. */
  #ended(settlement: Settlement): readonly AfterEntry[] {
    const { envelope } = this.task;
    const { epoch } = this.#ref;
    const isDead =
      settlement.kind === 'bury' || (settlement.kind === 'fail' && settlement.delayMs === null);
    if (!isDead || settlement.reason === 'ERR_DIGEST') return NOTHING;
    if (!this.#isFollowed()) return NOTHING;
    const { error } = settlement;
    return [{ key: endedKey(envelope.id, epoch), ended: { envelope, how: 'dead', epoch, error } }];
  }

  #followDeps(): FollowDeps {
    const { runtime, handlers, redact, keyring = NO_KEYS } = this.#deps;
    return {
      nowMs: runtime.clock.now(),
      queueOf: name => handlers.get(name)?.task.contract.queue ?? null,
      redact,
      keyring,
      answers: this.#deps.broker.reply !== undefined,
    };
  }

  /** Carries out what the settling step wrote into `after`, and strikes off what the broker confirmed. */
  async #follow(entries: readonly AfterEntry[], settledAt: number): Promise<void> {
    const { broker, ledger, runtime, results } = this.#deps;
    await runtime.faultPoint('worker.committed-not-followed');
    // Whoever slept since leaves it to the resurrector: what it has sent may be done and forgotten by now.
    if (runtime.clock.monotonic() - settledAt > FOLLOW_WITHIN_MS) return;
    try {
      const follow = this.#followDeps();
      await carryOut(entries, { broker, ledger, follow, ...(results ? { results } : {}) });
    } catch (error) {
      runtime.log.warn(
        { error, task: this.task.id },
        'follow-ups were not sent; a resurrector repeats them',
      );
    }
  }
}

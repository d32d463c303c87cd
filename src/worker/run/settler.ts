import { isUnavailable } from '../../errors/error.ts';
import type {
  BegunTask,
  ErrorRecord,
  FollowUp,
  RunRef,
  StepStatus,
  WorkerLedger,
} from '../../ledger/ledger.ts';
import { type BackoffPolicy, backoffMs } from '../../runtime/backoff.ts';
import { type Runtime, createdMs, sleep } from '../../runtime/runtime.ts';
import { endOfTick } from '../../runtime/wakeable.ts';
import type { Settlement } from './settlement.ts';
import { inContextOf } from '../../telemetry/ambient.ts';
import type { EventError, EventSink } from '../../telemetry/events.ts';
import { roundMs } from '../../telemetry/logger.ts';

interface Waiting<Item> {
  readonly item: Item;
  readonly resolve: (status: SettleStatus) => void;
}

/** Between two tries of the same settling call. It may succeed at any time, so it is repeated slowly and without limit. */
const RETRY: BackoffPolicy = { baseMs: 250, maxMs: 2_000, jitter: 'full' };

/** One for each in-flight batch: the settlements of one do not wait for the other. */
const MOST_CALLS = 2;

/** `refused`: the store can never take this, whatever process asks and however often. */
export type SettleStatus = StepStatus | 'refused';

/**
 * One settling step, in batches: items that arrive during a call are sent with the next one. A call whose
 * reply was lost is repeated as it is, because it names its runs; it gives up only when its incarnation is
 * gone. When a batch fails and the store is not away, one item of it is the cause: then each is sent alone, so that
 * a row that is locked or cannot be written does not delay the others.
 */
class StepBatcher<Item> {
  readonly #call: (items: readonly Item[]) => Promise<readonly StepStatus[]>;
  readonly #runtime: Runtime;
  readonly #isGone: () => boolean;
  #waiting: Waiting<Item>[] = [];
  /** A call waits for the end of this tick, and takes along every item until then. */
  #isGathering = false;
  #calls = 0;

  constructor(
    call: (items: readonly Item[]) => Promise<readonly StepStatus[]>,
    runtime: Runtime,
    isGone: () => boolean,
  ) {
    this.#call = call;
    this.#runtime = runtime;
    this.#isGone = isGone;
  }

  /** `stale` also when the incarnation is gone and the outcome is unknown. */
  settle(item: Item): Promise<SettleStatus> {
    return new Promise(resolve => {
      this.#waiting.push({ item, resolve });
      if (!this.#isGathering && this.#calls < MOST_CALLS) void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#isGathering = true;
    this.#calls += 1;
    // Runs that end in the same tick are sent together.
    await endOfTick();
    this.#isGathering = false;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      await this.#settleTogether(batch);
    }
    this.#calls -= 1;
  }

  async #settleTogether(batch: readonly Waiting<Item>[]): Promise<void> {
    const { clock, log } = this.#runtime;
    for (let tries = 1; ; tries++) {
      try {
        const statuses = await this.#call(batch.map(({ item }) => item));
        for (const [index, { resolve }] of batch.entries()) resolve(statuses[index] ?? 'stale');
        return;
      } catch (error) {
        if (tries === 1) log.warn({ error, items: batch.length }, 'settling failed; repeating it');
        if (this.#isGone()) return batch.forEach(({ resolve }) => resolve('stale'));
        if (!isUnavailable(error) || isOfOneRow(error)) {
          for (const waiting of batch) void this.#settleAlone(waiting);
          return;
        }
        await sleep(clock, this.#retryMs(tries));
      }
    }
  }

  #retryMs(tries: number): number {
    return backoffMs(RETRY, tries - 1, 0.5 + this.#runtime.random.next() / 2);
  }

  async #settleAlone({ item, resolve }: Waiting<Item>): Promise<void> {
    const { clock, log } = this.#runtime;
    for (let tries = 1; ; tries++) {
      try {
        const [status] = await this.#call([item]);
        return resolve(status ?? 'stale');
      } catch (error) {
        if (this.#isGone()) return resolve('stale');
        if (!isUnavailable(error)) {
          log.error({ error }, 'the store refuses what a run ended with');
          return resolve('refused');
        }
        await sleep(clock, this.#retryMs(tries));
      }
    }
  }
}

/** A lock timeout, or a statement that took too long: the store is there, one row is not available. */
function isOfOneRow(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } };
  return cause?.code === '55P03' || cause?.code === '57014';
}

/** The parameters of a commit. */
export interface CommitTerms {
  readonly after: readonly FollowUp[];
  readonly dedupMs: number;
  readonly resultMs: number;
  readonly children: string | null;
}

/** Writes the settlement of a run to the ledger. */
export function settleRun(
  settler: Settler,
  ref: RunRef,
  settlement: Settlement,
  terms: CommitTerms,
): SettleStatus | Promise<SettleStatus> {
  switch (settlement.kind) {
    case 'commit': {
      const { after, dedupMs, resultMs, children } = terms;
      const item = { ref, outcome: settlement.outcome, after, dedupMs, resultMs };
      return settler.commit.settle(children === null ? item : { ...item, children });
    }
    case 'fail': {
      const { error, delayMs, reason, isCrash } = settlement;
      return settler.fail.settle({ ref, error, delayMs, reason, isCrash });
    }
    case 'bury': {
      const { reason, error } = settlement;
      return settler.bury.settle({ kind: 'run', ref, reason, error });
    }
    case 'release': {
      const { delayMs } = settlement;
      return settler.release.settle(delayMs === undefined ? ref : { ...ref, delayMs });
    }
    case 'drop':
      return 'stale';
  }
}

/** A result that the store can never take must not come back forever: the task ends as a dead letter. */
export async function buryUnstorable({ bury }: Settler, ref: RunRef): Promise<StepStatus> {
  const message = 'the store refused what the run ended with; see the log of the worker';
  const error = { type: 'ERR_INVARIANT', message, traceback: '' };
  const answer = await bury.settle({ kind: 'run', ref, reason: 'ERR_INVARIANT', error });
  return answer === 'absent' ? 'absent' : 'stale';
}

/** The settling steps of one worker. */
export interface Settler {
  readonly commit: StepBatcher<Parameters<WorkerLedger['commit']>[0][number]>;
  readonly fail: StepBatcher<Parameters<WorkerLedger['fail']>[0][number]>;
  readonly release: StepBatcher<Parameters<WorkerLedger['release']>[0][number]>;
  readonly bury: StepBatcher<Parameters<WorkerLedger['bury']>[0][number]>;
}

export function createSettler(
  ledger: WorkerLedger,
  runtime: Runtime,
  isGone: () => boolean,
): Settler {
  const batcher = <Item>(
    call: (items: readonly Item[]) => Promise<readonly StepStatus[]>,
  ): StepBatcher<Item> => new StepBatcher(call, runtime, isGone);
  return {
    commit: batcher(items => ledger.commit(items)),
    fail: batcher(items => ledger.fail(items)),
    release: batcher(items => ledger.release(items)),
    bury: batcher(items => ledger.bury(items)),
  };
}

/** How long a run waited in its worker, and how long its handler ran. */
export interface RunTimes {
  readonly waitedMs: number;
  readonly ranMs: number;
}

/** Since a task was created, or since its eta: it could not begin before. Null: its id has no time in it. */
function sinceDueMs({ id, envelope }: BegunTask, nowMs: number): number | null {
  const bornMs = createdMs(id);
  return bornMs === null ? null : Math.max(0, nowMs - Math.max(bornMs, envelope.etaMs ?? 0));
}

/** A run is told that its soft timeout is over, and goes on. */
export function reportSoftTimeout(task: BegunTask, softTimeoutMs: number, emit: EventSink): void {
  const { id, envelope, failures } = task;
  const { name, queue } = envelope;
  emit('task:soft-timeout', { id, name, queue, attempt: failures + 1, softTimeoutMs });
}

export function reportStarted(
  task: BegunTask,
  waitedMs: number,
  { emit, clock }: Pick<Runtime, 'emit' | 'clock'>,
): void {
  if (emit.isHeard?.('task:started') === false) return;
  const { id, envelope, epoch, failures } = task;
  const started = {
    id,
    name: envelope.name,
    queue: envelope.queue,
    epoch,
    attempt: failures + 1,
    waitedMs: roundMs(waitedMs),
    lagMs: sinceDueMs(task, clock.now()),
  };
  inContextOf(envelope, () => emit('task:started', started));
}

export function reportCheckpoint(
  { id, envelope }: BegunTask,
  bytes: number,
  { emit }: Pick<Runtime, 'emit'>,
): void {
  emit('task:checkpointed', { id, name: envelope.name, queue: envelope.queue, bytes });
}

/** Emits how a run ended, once the store has it. */
export function reportSettled(
  task: BegunTask,
  settlement: Settlement,
  times: RunTimes,
  runtime: Pick<Runtime, 'emit' | 'clock'>,
): void {
  const isDone = settlement.kind === 'commit' && settlement.outcome.kind === 'done';
  if (isDone && runtime.emit.isHeard?.('task:done') === false) return;
  inContextOf(task.envelope, () => emitSettled(task, settlement, times, runtime));
}

function emitSettled(
  task: BegunTask,
  settlement: Settlement,
  times: RunTimes,
  { emit, clock }: Pick<Runtime, 'emit' | 'clock'>,
): void {
  const { id, envelope, epoch, failures } = task;
  const { name, queue } = envelope;
  switch (settlement.kind) {
    case 'commit': {
      const { outcome } = settlement;
      if (outcome.kind === 'discarded')
        return emit('task:discarded', { id, name, queue, why: outcome.why });
      return emit('task:done', {
        id,
        name,
        queue,
        epoch,
        attempt: failures + 1,
        waitedMs: roundMs(times.waitedMs),
        durationMs: roundMs(times.ranMs),
        totalMs: sinceDueMs(task, clock.now()),
      });
    }
    case 'fail':
      return emitFailure(task, settlement, times, emit);
    case 'bury': {
      const { reason, error } = settlement;
      return emit('task:dead-lettered', {
        id,
        name,
        queue,
        where: 'worker',
        reason,
        error: briefError(error),
      });
    }
    case 'release':
    case 'drop':
  }
}

function emitFailure(
  { id, envelope, failures, crashes }: BegunTask,
  settlement: Extract<Settlement, { readonly kind: 'fail' }>,
  { ranMs }: RunTimes,
  emit: EventSink,
): void {
  const { cause: error, delayMs, reason, isCrash } = settlement;
  const ref = { id, name: envelope.name, queue: envelope.queue };
  const attempt = failures + 1;
  const where = 'worker';
  if (!isCrash) emit('task:failed', { ...ref, where, attempt, durationMs: roundMs(ranMs), error });
  if (delayMs === null) {
    const last = briefError(settlement.error);
    emit('task:dead-lettered', { ...ref, where, reason, error: last });
  } else if (isCrash) {
    const { type: how, message: why } = settlement.error;
    emit('task:resurrected', { ...ref, resurrections: crashes + 1, worker: null, how, why });
  } else emit('task:retried', { ...ref, attempt, delayMs: roundMs(delayMs), error });
}

const briefError = ({ type, message }: ErrorRecord): EventError => ({ type, message });

import type { BegunTask } from '../../ledger/ledger.ts';
import { MOST_BYTES, MessageSize, nextTurn, withinBytes } from '../../runtime/wakeable.ts';
import type { Clock } from '../../runtime/runtime.ts';
import type { WorkerSettings } from '../worker-deps.ts';
import { PushWindows } from './queue-windows.ts';

/** Tasks that take longer than this on average gain nothing from prefetched messages. */
const SHORT_MS = 20;
/** A task that is begun before it has a slot should not wait for one for longer than this. */
const SLOT_WAIT_MS = 40;
/** The largest overcommit: two batches of eight times the slots. */
const MOST_OVERCOMMIT = 16;
/** Where only the ledger has tasks: tasks that come back from a crash come first there, and all at once. */
const MOST_OVERCOMMIT_OF_LEDGER = 8;
/** Before anything is known of them, tasks count as long. */
const UNKNOWN_MS = 1_000;
/** The weight of the last run in the average. */
const WEIGHT = 0.05;
/** One batch is begun while the one before it runs; a third would only wait behind them. */
const BATCHES = 2;
/** A larger batch would keep the store from other workers for too long, and stores have limits of their own. */
const LARGEST_BATCH = 500;
/** The ledger is asked for what comes back (retries, tasks of dead workers) this often, however full the broker is. */
const LEDGER_EVERY_MS = 200;
/** While the bodies of begun tasks weigh more than this nothing further is begun, however many slots are free. */
const MOST_BEGUN_BYTES = 4 * MOST_BYTES;
/** A worker whose slots have all been taken for this long leaves its queues. */
const FULL_MS = 1_000;

/** Busy senders do not notify for every task: after a notification, or after a look that found some, more may have come. */
const SOON_MS = 50;

/** What the worker holds at the moment. */
export interface FlowCounts {
  /** Tasks that run or wait for a slot. */
  readonly slots: { readonly used: number };
  /** Tasks that in-flight batches may still bring. */
  readonly batches: { readonly promised: number };
  /** Tasks that were begun and are not settled. */
  readonly runs: { readonly size: number; readonly bytes: number };
}

export interface FlowOptions extends Pick<WorkerSettings, 'concurrency' | 'queues' | 'ackOn'> {
  /** New messages come from a broker, and the ledger only returns tasks that come back. */
  readonly hasBroker: boolean;
}

/** The next batch. */
export interface BatchPlan {
  readonly size: number;
  /** How many of them to ask the broker for; the rest is reserved for the ledger. */
  readonly fromBroker: number;
}

/** How many tasks a batch asked for, and how many the ledger gave. */
export interface BatchAsked {
  readonly messages: number;
  readonly ofLedger: number;
  readonly byLedger: number;
}

/**
 * How many tasks a worker prefetches or is pushed, begins, runs and settles. Every such number is decided here and nowhere
 * else: slots, batches, prefetch and brokers report what they hold, and obey.
 *
 *   broker ──prefetch──► at hand ──┐
 *                                  ├──batch──► begun ──slot──► running ──► settling ──► gone
 *   ledger ────────────────────────┘
 *
 * Slots: `concurrency` handlers run at once, never more.
 *
 * Overcommit: while tasks are short more of them are begun than there are slots, so that no slot waits for the store. It
 * grows as tasks get shorter, to as many as get a slot within 40 ms, and shrinks as they get larger (32 MiB in all). It is 1
 * while nothing is known of the tasks, and while tasks of a dead worker come back: what killed that worker may be among them,
 * and takes with it all that are begun at the time.
 *
 * Bytes: nothing further is begun while the bodies of what is begun weigh 128 MiB or more: fifty slots would hold fifty bodies of
 * 16 MiB, each of which is several times as large when its handler has it. What is being begun meanwhile comes on top: two batches.
 *
 * Settling: a slot is free when its handler has ended, before its run is settled. As many runs may be settling as may be
 * begun, or a store that begins and does not commit would fill the memory.
 *
 * Batches: two are being begun at a time, so that the store works on one while this process works on the other. Each gets
 * half of what may be begun.
 *
 * Ledger quota: where the broker has enough to fill every batch, up to half of a batch is kept for the ledger five times a
 * second, and as long as the ledger had more than it was asked for. A task that comes back would otherwise wait until the
 * broker is empty. A single slot goes to either in turn.
 *
 * Prefetch: while tasks are short the next batch of messages is asked for while this one is begun. Messages that waited too
 * long at hand prove that tasks are longer than they seemed. A broker that pushes (RabbitMQ) is not asked; it has windows.
 *
 * Windows: how many messages that are not acknowledged a broker may push. `windows` decides, in three parts:
 *
 *   first   every queue that is consumed. The only queue: the slots. One of several: a sixteenth of the slots while messages
 *           are held until their runs are settled (`ackOn: 'commit'`), its quota of the slots while they are let go when begun.
 *   lent    several queues, `commit` only: while everything a queue holds is running it borrows from a common pool. All
 *           queues together hold the slots and two sixteenths for each queue; when all is lent, an unused window comes back,
 *           or one of the queue that has most to spare (`shared-windows.ts`).
 *   ahead   while tasks are short: three times the queue's quota of the slots from four tasks a second and slot on, and
 *           twenty-eight times from eighty on: two batches begun, two settling, half of one coming (`push-pace.ts`). 32 MiB at most.
 *
 * Nothing of it is hoarded (`queue-windows.ts`). When messages ahead have waited for a second, or outgrow 32 MiB, their windows are
 * shut, they go back, and nothing is pushed ahead for two seconds, twice as long each time, up to two minutes. When a message has
 * waited for two seconds with nothing ahead the queue is paused. A paused queue is pulled from: a take brings what it asks
 * for, the slots at most. It is pushed again when a take finds it empty or its tasks are short, unless the worker has left
 * it. A lost channel, a deleted queue or a pause costs its windows and nothing more: they open again as above.
 *
 * Naps: where senders write into the ledger, they notify of some tasks only; so a worker looks once more before it sleeps.
 *
 * Full: a worker whose slots have all been taken for a second leaves its queues, so that no broker pushes messages to it
 * that another worker could run. That pauses them.
 */
export class Flow {
  /** How many messages a broker may push to this process. */
  readonly windows: PushWindows;
  readonly #clock: Pick<Clock, 'monotonic' | 'timer'>;
  readonly #slots: number;
  readonly #mostOvercommit: number;
  readonly #counts: FlowCounts;
  readonly #messageSize = new MessageSize();
  #averageMs = UNKNOWN_MS;
  #ledgerAskedAt = -Infinity;
  #ledgerHasMore = false;
  #wasLedgerOnly = false;
  #fullSince: number | null = null;
  #wasBatchFull = false;
  readonly #hasBroker: boolean;
  /** Senders write into the ledger themselves, and more than it has told of. */
  #looksSoon = false;

  constructor(clock: Pick<Clock, 'monotonic' | 'timer'>, options: FlowOptions, counts: FlowCounts) {
    const queues = Object.keys(options.queues).length;
    this.windows = new PushWindows(clock, { ...options, queues });
    this.#clock = clock;
    this.#slots = options.concurrency;
    this.#hasBroker = options.hasBroker;
    this.#mostOvercommit = options.hasBroker ? MOST_OVERCOMMIT : MOST_OVERCOMMIT_OF_LEDGER;
    this.#counts = counts;
  }

  /** How many tasks may be begun for each slot. */
  get overcommit(): number {
    const most = Math.min(this.#mostOvercommit, Math.floor(SLOT_WAIT_MS / this.#averageMs));
    return Math.max(1, Math.floor(this.#within(most * this.#slots) / this.#slots));
  }

  /** How many tasks may be begun now; zero or less: none. */
  get free(): number {
    const { slots, batches, runs } = this.#counts;
    if (runs.bytes >= MOST_BEGUN_BYTES) return 0;
    const most = this.overcommit * this.#slots;
    return Math.min(most - slots.used, 2 * most - runs.size) - batches.promised;
  }

  /** Plans a batch, given how many tasks may be begun. */
  planBatch(free: number): BatchPlan {
    this.#fullSince = null;
    const half = Math.ceil((this.overcommit * this.#slots) / BATCHES);
    const size = Math.min(free, half, LARGEST_BATCH);
    return { size, fromBroker: size - this.#ledgerQuota(size) };
  }

  /**
   * How many tasks to ask the ledger for, out of so many that could be begun: no more than run at once if it had
   * nothing before. Tasks that come back from a crash come together, and the task that caused it is among them.
   */
  ledgerLimit(most: number): number {
    return this.#ledgerHasMore ? most : Math.min(most, this.#slots);
  }

  /** How many messages to ask the broker for ahead of need, given how many are at hand. */
  prefetch(atHand: number): number {
    if (this.#averageMs > SHORT_MS) return 0;
    const target = this.#within(Math.max(2, this.overcommit) * this.#slots);
    return atHand > target / 2 ? 0 : target - atHand;
  }

  /** Called when no task may be begun. Returns how long until the worker leaves its queues; 0: now. */
  untilLeaving(): number {
    const now = this.#clock.monotonic();
    this.#fullSince ??= now;
    return Math.max(this.#fullSince + FULL_MS - now, 0);
  }

  /** The last batch brought as many tasks as it could: there is likely to be more. */
  get wasBatchFull(): boolean {
    return this.#wasBatchFull;
  }

  /** The ledger has told of tasks. */
  notified(): void {
    this.#looksSoon = !this.#hasBroker;
  }

  /** How long to sleep at most after a look that found nothing, or something: one more look, and then a notification comes first. */
  longestNap(isIdle: boolean): number {
    const isSoon = this.#looksSoon;
    this.#looksSoon = !isIdle && !this.#hasBroker;
    return isSoon ? SOON_MS : Infinity;
  }

  /** A batch was begun, with these tasks. */
  begun(tasks: readonly Pick<BegunTask, 'crashes'>[], asked: BatchAsked): void {
    if (tasks.some(({ crashes }) => crashes > 0)) this.tasksAreLong();
    this.#wasBatchFull = tasks.length === asked.messages + asked.ofLedger;
    if (asked.ofLedger === 0) return;
    this.#ledgerAskedAt = this.#clock.monotonic();
    this.#ledgerHasMore = asked.byLedger === asked.ofLedger;
  }

  /** A batch could not be begun. */
  notBegun(): void {
    this.#wasBatchFull = false;
  }

  /** A handler has ended, this long after its task was begun. */
  ran(ms: number, bytes: number): void {
    this.#averageMs += (ms - this.#averageMs) * WEIGHT;
    this.#messageSize.note(bytes);
  }

  /** Messages at hand were not begun in time, or nothing is known of the tasks any more. */
  tasksAreLong(): void {
    this.#averageMs = UNKNOWN_MS;
  }

  #within(count: number): number {
    return withinBytes(count, this.#messageSize.bytes);
  }

  #ledgerQuota(size: number): number {
    const isDue = this.#clock.monotonic() - this.#ledgerAskedAt >= LEDGER_EVERY_MS;
    const goesOn = this.#ledgerHasMore && (size > 1 || !this.#wasLedgerOnly);
    const quota = isDue || goesOn ? Math.max(1, this.ledgerLimit(Math.floor(size / 2))) : 0;
    this.#wasLedgerOnly = quota === size;
    return quota;
  }
}

/** Queue names in a random order in which heavier ones tend to come first; light ones still get their turn. */
export function orderQueues(
  queues: Readonly<Record<string, number>>,
  random: () => number,
): readonly string[] {
  const names = Object.entries(queues);
  if (names.length === 1) return names.map(([name]) => name);
  // The smallest of exponentially distributed draws falls on a name in proportion to its weight.
  const drawn = names.map(([name, weight]) => ({ name, draw: -Math.log(1 - random()) / weight }));
  return drawn.toSorted((a, b) => a.draw - b.draw).map(({ name }) => name);
}

interface Batch<T> {
  tasks: number;
  suspects: number;
  readonly done: Promise<T>;
}

/** See `Flow`. */
const MOST = 2;

/** The batches that are being begun. */
export class InFlightBatches<T> {
  #batches: readonly Batch<T>[] = [];
  #turn: Promise<void> = Promise.resolve();

  /** How many tasks they may bring. */
  get promised(): number {
    return this.#batches.reduce((sum, { tasks }) => sum + tasks, 0);
  }

  /** How many suspects they may bring. */
  get suspects(): number {
    return this.#batches.reduce((sum, { suspects }) => sum + suspects, 0);
  }

  add(tasks: number, suspects: number, done: Promise<T>): void {
    const batch = { tasks, suspects, done };
    this.#batches = [...this.#batches, batch];
    const settled = (): void => {
      batch.tasks = 0;
      batch.suspects = 0;
    };
    // A failure reaches the caller that waits for the batch.
    done.then(settled, settled);
  }

  /** Waits until another batch may start; undefined: one could at once. */
  async room(): Promise<T | undefined> {
    return this.#batches.length < MOST ? undefined : await this.#first();
  }

  /** Waits for all of them; returns the result of the last one. */
  async last(): Promise<T | undefined> {
    let answer: T | undefined;
    while (this.#batches.length > 0) answer = await this.#first();
    return answer;
  }

  /** Waits for all of them, however they end. */
  async over(): Promise<void> {
    while (this.#batches.length > 0) await this.#first().catch(() => undefined);
  }

  /**
   * Only one batch continues in each turn of the event loop. If two replies arrive together, this process would run both
   * batches while the store is idle; so the request that follows the first is sent before the second is run.
   */
  turn(): Promise<void> {
    const mine = this.#turn;
    this.#turn = mine.then(nextTurn);
    return mine;
  }

  async #first(): Promise<T | undefined> {
    const [batch] = this.#batches;
    try {
      return await batch?.done;
    } finally {
      this.#batches = this.#batches.filter(other => other !== batch);
    }
  }
}

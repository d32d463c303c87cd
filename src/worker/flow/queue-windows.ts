import type { Demand, PushWindow, PushedQueue, QueueDemand } from '../../broker/demand.ts';
import { MOST_BYTES, withinBytes } from '../../runtime/wakeable.ts';
import type { Clock } from '../../runtime/runtime.ts';
import { type Borrower, SharedWindows } from './shared-windows.ts';

/** Messages that were pushed ahead and not taken for this long go back: another process may have a slot. */
const LATE_MS = 1_000;
/** For a queue with nothing ahead: its windows are no larger than needed, and quorum queues count returns. */
const FIRST_LATE_MS = 2_000;
const LOOK_MS = 250;
/** A message that is pulled finds a free slot at once: when it is answered in less, its task was short. */
const SHORT_MS = 500;

export interface QueueLimits {
  /** Messages of one queue that may be held while tasks are long. */
  readonly limit: number;
  /** Shared with other queues: `limit` is then what they may hold together. Null: the queue has it for itself. */
  readonly pool: SharedWindows | null;
}

/** A window for tasks that have no slot yet. */
interface Ahead {
  readonly window: PushWindow;
  /** How many times the slots it is. */
  readonly width: number;
}

const isLive = ({ state }: PushWindow): boolean => state === 'opening' || state === 'open';

/**
 * The windows of one queue: how many messages of it a broker may push. `Flow` explains the whole.
 *
 *   first: always, while the queue is consumed
 *   lent:  of the pool, while everything it may hold is running
 *   ahead: while tasks are short; shut when a message waits for a second, or when they weigh too much
 */
class QueueWindows implements QueueDemand, Borrower {
  readonly #queue: PushedQueue;
  readonly #clock: Pick<Clock, 'monotonic' | 'timer'>;
  readonly #limit: number;
  readonly #pool: SharedWindows | null;
  readonly #pace: PushPace;
  #ahead: readonly Ahead[] = [];
  #lent: PushWindow[] = [];
  /** What the lent windows count for in the pool. */
  #counted = 0;
  #isWatched = false;

  constructor(
    queue: PushedQueue,
    clock: Pick<Clock, 'monotonic' | 'timer'>,
    { limit, pool }: QueueLimits,
  ) {
    this.#queue = queue;
    this.#clock = clock;
    this.#limit = limit;
    this.#pool = pool;
    this.#pace = new PushPace(limit, clock);
    pool?.join(this);
  }

  get first(): number {
    return this.#pool?.step ?? this.#limit;
  }

  get mostPulled(): number {
    return this.#limit;
  }

  /** The next message finds a free slot. */
  foundEmpty(): void {
    this.#resume();
  }

  ranShort(): void {
    if (this.isFull) this.#pool?.ask(this);
  }

  arrived(): void {
    this.#watch();
  }

  /**
   * Pulling from a busy server brings so few messages that by their number they look like long tasks, and windows ahead may
   * have to rest for minutes: so the time that a pulled message took decides whether the first window is opened again.
   */
  acknowledged(count: number, pulledMs: number | null): void {
    this.changed();
    this.#pace.acknowledged(count);
    const { width } = this.#pace;
    const areShort = width > this.#width;
    // Pushed messages of short tasks do not wait.
    if (this.#queue.isPulling && (areShort || (pulledMs !== null && pulledMs < SHORT_MS)))
      this.#resume();
    else if (areShort && !this.#queue.isPulling) this.#openAhead(width);
  }

  changed(): void {
    if (this.#lent.length === 0) return;
    const before = this.#counted;
    this.#lent = this.#lent.filter(({ state, held }) => state !== 'shut' || held > 0);
    // What a shut window holds counts until it is answered.
    const counts = this.#lent.map(({ state, size, held }) => (state === 'shut' ? held : size));
    this.#counted = counts.reduce((sum, count) => sum + count, 0);
    if (this.#counted !== before) this.#pool?.giveBack(before - this.#counted);
  }

  get spare(): number {
    const { unacknowledged, atHand } = this.#queue;
    return this.#held - (unacknowledged - atHand);
  }

  get isFull(): boolean {
    const { isConsuming, unacknowledged, atHand } = this.#queue;
    // What is pushed ahead is enough by itself.
    return isConsuming && this.#width === 0 && atHand === 0 && unacknowledged >= this.#held;
  }

  lend(size: number): void {
    const window = this.#queue.open(size);
    if (window === null) return this.#pool?.giveBack(size);
    this.#lent.push(window);
    this.#counted += size;
  }

  shrink(which: 'idle' | 'any'): boolean {
    // The one that will be empty soonest.
    const [window] = this.#lent
      .filter(({ state, held }) => state === 'open' && (which === 'any' || held === 0))
      .toSorted((one, two) => one.held - two.held);
    if (window) void this.#queue.shut([window], false);
    return window !== undefined;
  }

  /** How many messages may be held, without those ahead. */
  get #held(): number {
    return this.#lent.filter(isLive).reduce((sum, { size }) => sum + size, this.first);
  }

  /** Of the widest window ahead; 0: there is none. */
  get #width(): number {
    let most = 0;
    for (const { window, width } of this.#ahead) if (width > most && isLive(window)) most = width;
    return most;
  }

  /** Not for a worker that leaves, or doubts its ledger: it acknowledges and pulls, and could not begin what is pushed. */
  #resume(): void {
    if (this.#queue.isPulling && this.#queue.isAwaited) this.#queue.resume();
  }

  /** In addition to those that are open: a window cannot be changed, and one that replaces another begins empty. */
  #openAhead(width: number): void {
    const share = this.#pool?.share ?? this.#limit;
    const size = withinBytes(share * width, this.#queue.messageBytes);
    const window = size > 0 ? this.#queue.open(size) : null;
    if (window === null) return;
    if (this.#width === 0) this.#pace.opened();
    this.#ahead = [...this.#ahead.filter(ahead => isLive(ahead.window)), { window, width }];
    this.#watch();
  }

  /** Looks at messages at hand periodically, while there are any. */
  #watch(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    const setAt = this.#clock.monotonic();
    this.#clock.timer(LOOK_MS, () => {
      this.#isWatched = false;
      if (this.#queue.atHand === 0 && this.#width === 0) return;
      // Otherwise this process stood still, and its worker could not take anything.
      if (this.#clock.monotonic() - setAt <= 2 * LOOK_MS) this.#look();
      this.#watch();
    });
  }

  #look(): void {
    const queue = this.#queue;
    if (queue.isPulling) return;
    if (this.#width === 0) {
      if (queue.waitedMs > FIRST_LATE_MS) void queue.pause();
    } else if (queue.waitedMs > LATE_MS || queue.bytesAtHand > MOST_BYTES) this.#shutAhead();
  }

  /** Tasks got longer, or larger: other processes get the messages that were pushed ahead. */
  #shutAhead(): void {
    const windows = this.#ahead.map(({ window }) => window);
    this.#pace.rest(this.#width);
    this.#ahead = [];
    void this.#queue.shut(windows, true);
  }
}

const WINDOW_MS = 500;
/**
 * The size of windows ahead as a multiple of the slots, by tasks per second and slot: three times for the tasks that begin
 * next. Where tasks are so short that many are begun early: two batches of those, two being settled and half of one coming.
 * All of it runs within half a second.
 */
const WIDTHS: readonly (readonly [tasksPerSecond: number, width: number])[] = [
  [80, 28],
  [4, 3],
];
/**
 * After messages went back no window ahead is opened for this long, and longer each time: quorum queues count returns. A
 * single stall costs seconds; tasks that alternate between short and long cost one return every two minutes.
 */
const FIRST_REST_MS = 2_000;
const LONGEST_REST_MS = 120_000;
/**
 * Windows ahead that were emptied so many times before they came too late were of use, and did not return the message at the
 * head of the queue again and again: a machine that stalls now and then rests as after its first stall.
 */
const OF_USE = 10;

/** Whether the tasks of a queue are short, judged by its acknowledgements. */
export class PushPace {
  readonly #slots: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #since = -Infinity;
  #acknowledged = 0;
  /** Acknowledged since there are windows ahead. */
  #throughput = 0;
  #restMs = 0;
  #restUntil = -Infinity;

  /** @param slots tasks that run at once */
  constructor(slots: number, clock: Pick<Clock, 'monotonic'>) {
    this.#slots = slots;
    this.#clock = clock;
  }

  acknowledged(count: number): void {
    const now = this.#clock.monotonic();
    if (now - this.#since > WINDOW_MS) {
      this.#since = now;
      this.#acknowledged = 0;
    }
    this.#acknowledged += count;
    this.#throughput += count;
  }

  /** How many times the slots may be pushed ahead; 0: nothing. */
  get width(): number {
    const now = this.#clock.monotonic();
    if (now < this.#restUntil || now - this.#since > WINDOW_MS) return 0;
    const perSecond = (this.#acknowledged / this.#slots) * (1_000 / WINDOW_MS);
    return WIDTHS.find(([least]) => perSecond >= least)?.[1] ?? 0;
  }

  /** The first window ahead is being opened. */
  opened(): void {
    this.#throughput = 0;
  }

  /** Messages that were pushed ahead, `width` times the slots, were not taken in time, or were too large, and went back. */
  rest(width: number): void {
    const now = this.#clock.monotonic();
    const isLongAgo = now - this.#restUntil > LONGEST_REST_MS;
    const wereOfUse = this.#throughput >= OF_USE * this.#slots * width;
    this.#restMs =
      isLongAgo || wereOfUse ? FIRST_REST_MS : Math.min(2 * this.#restMs, LONGEST_REST_MS);
    this.#restUntil = now + this.#restMs;
  }
}

export interface PushOptions {
  /** Tasks that run at once. */
  readonly concurrency: number;
  /** How many queues are taken from. */
  readonly queues: number;
  /** Until when messages are held: until their run is settled, or until they are begun. */
  readonly ackOn: 'commit' | 'begin';
}

/** How many messages a broker that pushes may push to this process. `Flow` explains the whole. */
export class PushWindows implements Demand {
  readonly #clock: Pick<Clock, 'monotonic' | 'timer'>;
  readonly #limits: QueueLimits;

  constructor(
    clock: Pick<Clock, 'monotonic' | 'timer'>,
    { concurrency, queues, ackOn }: PushOptions,
  ) {
    this.#clock = clock;
    // With `commit` what runs is held too, and any queue may be the only one that has work; with `begin` each has its quota.
    this.#limits =
      ackOn === 'commit'
        ? { limit: concurrency, pool: new SharedWindows(concurrency) }
        : { limit: Math.ceil(concurrency / Math.max(1, queues)), pool: null };
  }

  join(queue: PushedQueue, isAlone: boolean): QueueDemand {
    const limits = isAlone ? { ...this.#limits, pool: null } : this.#limits;
    return new QueueWindows(queue, this.#clock, limits);
  }
}

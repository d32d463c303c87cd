import type { Clock } from '../runtime/runtime.ts';

interface Event {
  readonly atMs: number;
  readonly seq: number;
  readonly fn: () => void;
  isCancelled: boolean;
}

const isBefore = (a: Event, b: Event): boolean =>
  a.atMs < b.atMs || (a.atMs === b.atMs && a.seq < b.seq);

/**
 * Time that passes only when something is due. Events run one by one, ordered by time and then by the order in
 * which they were asked for; between two of them the event loop turns once, so that every promise that can settle has
 * settled. Nothing else decides what comes next, so a seed replays a run exactly.
 */
export class VirtualTime {
  nowMs = 0;
  /** How many events have run; for figures. */
  events = 0;
  readonly #heap: Event[] = [];
  #seq = 0;
  #isStopped = false;

  /** The same for parts that take a clock. */
  readonly clock: Clock = {
    now: () => this.nowMs,
    monotonic: () => this.nowMs,
    timer: (ms, fn) => this.after(ms, fn),
  };

  /** Calls `fn` after `ms`; the returned function cancels it. */
  after(ms: number, fn: () => void): () => void {
    const event: Event = {
      atMs: this.nowMs + Math.max(0, ms),
      seq: ++this.#seq,
      fn,
      isCancelled: false,
    };
    this.#push(event);
    return () => void (event.isCancelled = true);
  }

  /** Ends `runUntil` after the event that is running. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Lets time pass until `endMs`, or until `stop` is called. */
  runUntil(endMs: number): Promise<void> {
    this.#isStopped = false;
    return new Promise((resolve, reject) => {
      const turn = (): void => {
        const event = this.#isStopped ? undefined : this.#popUntil(endMs);
        if (event === undefined) {
          if (!this.#isStopped) this.nowMs = endMs;
          return resolve();
        }
        this.nowMs = event.atMs;
        this.events += 1;
        try {
          event.fn();
        } catch (error) {
          return reject(error);
        }
        setImmediate(turn);
      };
      setImmediate(turn);
    });
  }

  #popUntil(endMs: number): Event | undefined {
    for (;;) {
      const first = this.#heap[0];
      if (first === undefined || (first.atMs > endMs && !first.isCancelled)) return undefined;
      this.#pop();
      if (!first.isCancelled) return first;
    }
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above] as Event;
      if (!isBefore(event, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      const right = heap[below + 1];
      if (right !== undefined && isBefore(right, heap[below] as Event)) below += 1;
      const child = heap[below] as Event;
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
  }
}

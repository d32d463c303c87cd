import type { Clock } from './runtime.ts';

/**
 * A sleep that hints can cut short. A hint that comes while there is no sleeper is remembered once, so a
 * wake-up between "nothing to do" and "going to sleep" is not lost.
 */
export class Wakeable {
  readonly #clock: Clock;
  #wake: (() => void) | undefined;
  #hinted = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Wakes the sleeper, or the next one. */
  readonly hint = (): void => {
    this.#hinted = true;
    this.#wake?.();
  };

  /** True when a hint ended it. */
  async sleep(ms: number, signal: AbortSignal): Promise<boolean> {
    if (!this.#hinted && !signal.aborted) {
      await new Promise<void>(resolve => {
        const done = (): void => {
          cancel();
          signal.removeEventListener('abort', done);
          this.#wake = undefined;
          resolve();
        };
        const cancel = this.#clock.timer(ms, done);
        signal.addEventListener('abort', done, { once: true });
        this.#wake = done;
      });
    }
    const wasHinted = this.#hinted;
    this.#hinted = false;
    return wasHinted;
  }
}

/**
 * Resolves when everything that can go on without waiting for the outside world has done so: every promise that could
 * settle has settled. Requests made meanwhile can then be sent together.
 */
export function endOfTick(): Promise<void> {
  return new Promise(resolve => process.nextTick(resolve));
}

/** Resolves in the next turn of the event loop: earlier writes are on their way. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve));
}

/**
 * The most bytes of messages that a worker prefetches, or that a further window of one RabbitMQ queue holds. It is estimated
 * from earlier messages: if their size jumps, the excess has already arrived, and goes back.
 */
export const MOST_BYTES: number = 32 * 2 ** 20;
/** How much of a large message's size is carried over to the next: it fades after some hundred small ones. */
const MEMORY = 0.99;

/**
 * The bytes that the messages of one `take` may have together when inflated. The size of one is known only after it was
 * inflated, so the last may exceed half of `MOST_BYTES`: with messages of up to 16 MiB the sum is `MOST_BYTES` at most.
 * At least one message is always taken.
 */
export class ByteAllowance {
  #left = MOST_BYTES / 2;

  get isSpent(): boolean {
    return this.#left <= 0;
  }

  spend(bytes: number): void {
    this.#left -= bytes;
  }
}

/** The size of large messages of late. */
export class MessageSize {
  #bytes = 1;

  /** Called for every message: a larger one counts at once. */
  note(bytes: number): void {
    this.#bytes = Math.max(bytes, this.#bytes * MEMORY, 1);
  }

  get bytes(): number {
    return this.#bytes;
  }
}

/** How many of so many messages of this size may be prefetched: fewer if they are large, and none if they are very large. */
export const withinBytes = (count: number, messageBytes: number): number =>
  Math.min(count, Math.floor(MOST_BYTES / messageBytes));

/** Slices of up to `count` items, in their order. */
export function slicesOf<T>(items: readonly T[], count: number): readonly (readonly T[])[] {
  if (items.length <= count) return items.length === 0 ? [] : [items];
  const length = Math.ceil(items.length / count);
  return Array.from({ length }, (_, n) => items.slice(n * count, (n + 1) * count));
}

export interface SliceLimits<T> {
  readonly count: number;
  readonly bytes: number;
  readonly bytesOf: (item: T) => number;
}

/** Slices of up to this many items and bytes, in their order. An item with more bytes is alone. */
export function slicesWithin<T>(
  items: readonly T[],
  { count, bytes, bytesOf }: SliceLimits<T>,
): readonly (readonly T[])[] {
  const slices: T[][] = [];
  let [slice, sum]: [T[], number] = [[], 0];
  for (const item of items) {
    const size = bytesOf(item);
    if (slice.length > 0 && (slice.length === count || sum + size > bytes)) {
      slices.push(slice);
      [slice, sum] = [[], 0];
    }
    slice.push(item);
    sum += size;
  }
  if (slice.length > 0) slices.push(slice);
  return slices;
}

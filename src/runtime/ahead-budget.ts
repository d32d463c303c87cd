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

/**
 * What the messages that a worker takes ahead, or a further window of one queue of RabbitMQ holds, may weigh together. It goes by
 * the messages before: what comes when they grow at once is here already, and goes back.
 */
export const MOST_BYTES: number = 32 * 2 ** 20;
/** How much of a large message is remembered from each one to the next: it is forgotten after some hundred small ones. */
const MEMORY = 0.99;

/** How many messages may be here before their time: fewer where they are large, and none where they are very large. */
export class AheadBudget {
  #bytes = 1;

  /** Told of every message: of one that is larger than the others at once. */
  note(bytes: number): void {
    this.#bytes = Math.max(bytes, this.#bytes * MEMORY, 1);
  }

  /** Up to so many. */
  allows(count: number): number {
    return Math.min(count, Math.floor(MOST_BYTES / this.#bytes));
  }
}

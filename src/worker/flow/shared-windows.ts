/** A queue, one of several that share what the process may hold. */
export interface Borrower {
  /** Messages it may hold that are not running: not taken yet, or not delivered yet. */
  readonly spare: number;
  /** Everything it may hold is running. */
  readonly isFull: boolean;
  /** Opens another window of this size. */
  lend(size: number): void;
  /** Shuts an idle window, or any; its messages free their share as they are answered. False: there is none to shut. */
  shrink(which: 'idle' | 'any'): boolean;
}

/** Parts of all slots: a smaller step would only create more consumers. */
const STEPS = 16;

/**
 * The unacknowledged messages of all queues of a process: its slots, plus two steps for each queue.
 *
 * RabbitMQ has a window per consumer, which cannot be changed, and no window across consumers that quorum queues
 * support. So every queue keeps a window of one step, which prevents starvation, and borrows more while everything it
 * holds is running. When all are lent, an idle window is reclaimed, or else one from the queue with two steps that are
 * not running. While all slots are in use there always is such a queue, so queues are picked by weight and not by what
 * they hold. No message is returned for that: what a shut window holds counts until it is answered.
 */
export class SharedWindows {
  /** The window that every queue keeps. */
  readonly step: number;
  readonly #slots: number;
  readonly #borrowers = new Set<Borrower>();
  readonly #waiting = new Set<Borrower>();
  #free: number;

  constructor(slots: number) {
    this.#slots = slots;
    this.step = Math.ceil(slots / STEPS);
    this.#free = slots;
  }

  /** Each queue's quota if all were equal. */
  get share(): number {
    return Math.ceil(this.#slots / Math.max(1, this.#borrowers.size));
  }

  join(borrower: Borrower): void {
    this.#borrowers.add(borrower);
    this.#free += this.step;
  }

  /** The borrower is full, and its queue may have more. */
  ask(borrower: Borrower): void {
    if (this.#free > 0) return this.#lend(borrower);
    const isWaiting = this.#waiting.has(borrower);
    this.#waiting.add(borrower);
    const others = [...this.#borrowers].filter(other => other !== borrower);
    const isComing = others.some(other => other.shrink('idle'));
    // Reclaim only once: the messages in the window being shut may run for a while.
    if (isComing || isWaiting) return;
    const [richest] = others.toSorted((one, two) => two.spare - one.spare);
    if (richest && richest.spare >= 2 * this.step) richest.shrink('any');
  }

  giveBack(size: number): void {
    this.#free += size;
    for (const borrower of this.#waiting) {
      if (this.#free <= 0) return;
      this.#waiting.delete(borrower);
      if (borrower.isFull) this.#lend(borrower);
    }
  }

  #lend(borrower: Borrower): void {
    const fair = Math.floor(this.#free / this.#borrowers.size);
    const size = Math.min(this.#free, Math.max(this.step, fair));
    this.#free -= size;
    borrower.lend(size);
  }
}

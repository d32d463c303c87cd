/** The consumer of one queue, as one of several that share what a process may hold. */
export interface Borrower {
  /** Messages it may hold now. */
  readonly window: number;
  /** Those of them that do not run: nobody has taken them, or they have not come. */
  readonly spare: number;
  /** Everything it may hold runs. */
  readonly isFull: boolean;
  /** Opens a further window of this size. */
  lend(size: number): void;
  /** Shuts a window that holds nothing, or any; what was in it comes back as it is answered. False: it has none. */
  shrink(which: 'idle' | 'any'): boolean;
}

/** Of all places: a smaller step would only make more consumers. */
const STEPS = 16;

/**
 * What the queues of a process hold together without an answer: its places, and two steps for each of them.
 *
 * RabbitMQ has a window for each consumer, which cannot be changed, and none for all that quorum queues know. So every queue
 * has a window of a step always, by which none starves, and borrows further ones while everything it holds runs. Where all
 * are lent one comes back that is not used, and else one of whoever has two steps that do not run: while all places are
 * used there is always somebody, so that queues are chosen from by their weights and not by what they hold. Nothing goes
 * back to the server for that: what a shut window holds counts until it is answered.
 */
export class SharedWindows {
  /** The window that every queue has. */
  readonly step: number;
  readonly #places: number;
  readonly #borrowers = new Set<Borrower>();
  readonly #waiting = new Set<Borrower>();
  #free: number;

  constructor(places: number) {
    this.#places = places;
    this.step = Math.ceil(places / STEPS);
    this.#free = places;
  }

  /** What each queue would have if they were all alike. */
  get share(): number {
    return Math.ceil(this.#places / Math.max(1, this.#borrowers.size));
  }

  join(borrower: Borrower): void {
    this.#borrowers.add(borrower);
    this.#free += this.step;
  }

  /** It is full, and there may be more in its queue. */
  ask(borrower: Borrower): void {
    if (this.#free > 0) return this.#lend(borrower);
    const others = [...this.#borrowers].filter(other => other !== borrower);
    const isComing = others.some(other => other.shrink('idle'));
    // Asked for once: what runs in the window that was shut may take its time.
    if (!isComing && !this.#waiting.has(borrower)) {
      const [richest] = others.toSorted((one, two) => two.spare - one.spare);
      if (richest && richest.spare >= 2 * this.step) richest.shrink('any');
    }
    this.#waiting.add(borrower);
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

/** Further than any fleet has counted; whoever claims more would only bring the count to where integers end. */
const MOST = 2 ** 48;

/** Lamport's logical clock: tells the order of what nodes said to each other, whatever their clocks on the wall say. */
export class LamportClock {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  /** The next count, for something that is said here. */
  forward(): number {
    this.#value += 1;
    return this.#value;
  }

  /** Something was heard that was said at this count. */
  adjust(other: number): void {
    this.#value = Math.max(this.#value, other < MOST ? other : 0) + 1;
  }
}

/** More than any fleet has counted; a node that claims more would only push the count to the end of the integers. */
const MOST = 2 ** 48;

/** Lamport's logical clock: orders the messages between nodes, whatever their wall clocks show. */
export class LamportClock {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  /** The next count, for a message from here. */
  forward(): number {
    this.#value += 1;
    return this.#value;
  }

  /** A message with this count was received. */
  adjust(other: number): void {
    this.#value = Math.max(this.#value, other < MOST ? other : 0) + 1;
  }
}

import type { Delivery } from '../broker/broker.ts';
import type { TakeAhead } from './take-ahead.ts';

/**
 * What a worker takes from: its queues, less those that are paused, and its place among those whom the broker hands
 * messages to. Whoever waits for messages is given them, so a queue that is left is left at once.
 */
export class Intake {
  readonly #ahead: Pick<TakeAhead, 'take' | 'onReady' | 'giveBack'>;
  readonly #hint: () => void;
  #queues: Readonly<Record<string, number>>;
  #open: Readonly<Record<string, number>>;
  #paused: ReadonlySet<string> = new Set();
  #unsubscribe: (() => void) | null = null;

  constructor(
    ahead: Pick<TakeAhead, 'take' | 'onReady' | 'giveBack'>,
    queues: Readonly<Record<string, number>>,
    hint: () => void,
  ) {
    this.#ahead = ahead;
    this.#queues = queues;
    this.#open = queues;
    this.#hint = hint;
  }

  /** All of them, with their weights. */
  get queues(): Readonly<Record<string, number>> {
    return this.#queues;
  }

  /** Those that may be taken from now. */
  get open(): Readonly<Record<string, number>> {
    return this.#open;
  }

  get isShut(): boolean {
    return Object.keys(this.#open).length === 0;
  }

  /** From now on; what was taken from others is finished. */
  takeFrom(queues: Readonly<Record<string, number>>): void {
    this.#queues = queues;
    this.#resubscribe();
  }

  pause(queues: readonly string[]): void {
    const { size } = this.#paused;
    if (queues.length === size && queues.every(queue => this.#paused.has(queue))) return;
    this.#paused = new Set(queues);
    // What was taken ahead may be of a queue that is paused now.
    this.#giveBack();
    this.#resubscribe();
  }

  take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    this.#unsubscribe ??= this.#ahead.onReady(queues, this.#hint);
    return this.#ahead.take(queues, limit);
  }

  /** Messages belong to others as long as nothing can be begun here; those that are here already too. */
  leave(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#giveBack();
  }

  #giveBack(): void {
    void this.#ahead.giveBack().catch(() => undefined);
  }

  #resubscribe(): void {
    const open = Object.entries(this.#queues).filter(([queue]) => !this.#paused.has(queue));
    this.#open = Object.fromEntries(open);
    if (this.#unsubscribe) {
      // First the new ones: a queue that stays is awaited all the time.
      const leave = this.#unsubscribe;
      this.#unsubscribe = this.#ahead.onReady(Object.keys(this.#open), this.#hint);
      leave();
    }
    this.#hint();
  }
}

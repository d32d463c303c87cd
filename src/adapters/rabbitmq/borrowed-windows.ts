import type { Borrower, SharedWindows } from './shared-windows.ts';

/** The consumer of a queue. */
export interface BorrowingQueue {
  state(): {
    readonly isConsuming: boolean;
    /** Unacknowledged messages. */
    readonly held: number;
    /** Those the worker has not taken yet. */
    readonly untaken: number;
  };
  /**
   * Opens another consumer and reports each message it delivers. Resolves with a function that ends it and never
   * rejects.
   */
  open(size: number, onMessage: (deliveryTag: number) => void): Promise<() => Promise<void>>;
}

interface Window {
  /** How many messages it may hold; once shut, how many it still holds. */
  size: number;
  readonly held: Set<number>;
  /** Null: still being opened. */
  end: (() => Promise<void>) | null;
  state: 'open' | 'shutting' | 'shut';
}

/** The windows that one queue has borrowed, in addition to its permanent one. */
export class BorrowedWindows implements Borrower {
  readonly #pool: SharedWindows;
  readonly #queue: BorrowingQueue;
  #windows: Window[] = [];

  constructor(pool: SharedWindows, queue: BorrowingQueue) {
    this.#pool = pool;
    this.#queue = queue;
    pool.join(this);
  }

  get window(): number {
    const open = this.#windows.filter(({ state }) => state === 'open');
    return open.reduce((sum, { size }) => sum + size, this.#pool.step);
  }

  get spare(): number {
    const { held, untaken } = this.#queue.state();
    return this.window - (held - untaken);
  }

  get isFull(): boolean {
    const { isConsuming, held, untaken } = this.#queue.state();
    return isConsuming && untaken === 0 && held >= this.window;
  }

  /** Called after a take. */
  look(): void {
    if (this.isFull) this.#pool.ask(this);
  }

  lend(size: number): void {
    const window: Window = { size, held: new Set(), end: null, state: 'open' };
    this.#windows.push(window);
    void this.#open(window);
  }

  shrink(which: 'idle' | 'any'): boolean {
    // The one that will be empty soonest.
    const [window] = this.#windows
      .filter(({ state, end }) => state === 'open' && end !== null)
      .filter(({ held }) => which === 'any' || held.size === 0)
      .toSorted((one, two) => one.held.size - two.held.size);
    if (window) void this.#shut(window);
    return window !== undefined;
  }

  /** Called when these messages were acknowledged or given back. */
  release(deliveryTags: readonly number[]): void {
    if (this.#windows.length === 0) return;
    let free = 0;
    for (const tag of deliveryTags) {
      const window = this.#windows.find(({ held }) => held.delete(tag));
      if (window?.state !== 'shut') continue;
      window.size -= 1;
      free += 1;
    }
    if (free > 0) this.#giveBack(free);
  }

  /** Shuts every window: no more messages will come. */
  async shutAll(): Promise<void> {
    await Promise.all(this.#windows.map(window => this.#shut(window)));
  }

  /** The channel is gone, and all its windows with it. */
  drop(): void {
    const size = this.#windows.reduce((sum, window) => sum + window.size, 0);
    this.#windows = [];
    this.#pool.giveBack(size);
  }

  async #open(window: Window): Promise<void> {
    try {
      window.end = await this.#queue.open(window.size, tag => window.held.add(tag));
    } catch {
      // The channel is gone; its first consumer reports the reason.
      window.end = () => Promise.resolve();
      await this.#shut(window);
    }
    if (window.state === 'shutting') await this.#end(window);
  }

  async #shut(window: Window): Promise<void> {
    if (window.state !== 'open') return;
    window.state = 'shutting';
    await this.#end(window);
  }

  async #end(window: Window): Promise<void> {
    if (window.end === null) return;
    await window.end();
    // Dropped in the meantime, or ended by another call.
    if (window.state === 'shut' || !this.#windows.includes(window)) return;
    window.state = 'shut';
    const free = window.size - window.held.size;
    window.size = window.held.size;
    this.#giveBack(free);
  }

  #giveBack(size: number): void {
    this.#windows = this.#windows.filter(window => window.size > 0);
    this.#pool.giveBack(size);
  }
}

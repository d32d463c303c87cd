import type { Borrower, SharedWindows } from './shared-windows.ts';

/** The consumer of a queue. */
export interface BorrowingQueue {
  state(): {
    readonly isConsuming: boolean;
    /** Messages without an answer. */
    readonly held: number;
    /** Those of them that nobody has taken. */
    readonly untaken: number;
  };
  /** Opens a further consumer, and tells of every message it brings. Resolves with what ends it, which never rejects. */
  open(size: number, onMessage: (deliveryTag: number) => void): Promise<() => Promise<void>>;
}

interface Window {
  /** What it may hold, and when it is shut what it still does. */
  size: number;
  readonly held: Set<number>;
  /** Null: it is being opened. */
  end: (() => Promise<void>) | null;
  state: 'open' | 'shutting' | 'shut';
}

/** The windows that one queue has borrowed, beside the one it always has. */
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

  /** Something was taken. */
  look(): void {
    if (this.isFull) this.#pool.ask(this);
  }

  lend(size: number): void {
    const window: Window = { size, held: new Set(), end: null, state: 'open' };
    this.#windows.push(window);
    void this.#open(window);
  }

  shrink(which: 'idle' | 'any'): boolean {
    // The one that is empty soonest.
    const [window] = this.#windows
      .filter(({ state, end }) => state === 'open' && end !== null)
      .filter(({ held }) => which === 'any' || held.size === 0)
      .toSorted((one, two) => one.held.size - two.held.size);
    if (window) void this.#shut(window);
    return window !== undefined;
  }

  /** These were answered. */
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

  /** Nothing more is to come. */
  async shutAll(): Promise<void> {
    await Promise.all(this.#windows.map(window => this.#shut(window)));
  }

  /** The channel is gone, and everything with it. */
  drop(): void {
    const size = this.#windows.reduce((sum, window) => sum + window.size, 0);
    this.#windows = [];
    this.#pool.giveBack(size);
  }

  async #open(window: Window): Promise<void> {
    try {
      window.end = await this.#queue.open(window.size, tag => window.held.add(tag));
    } catch {
      // The channel is gone: its first consumer says why.
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
    // Dropped meanwhile, or ended by another.
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

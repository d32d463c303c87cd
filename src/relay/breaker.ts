import type { Runtime } from '../runtime/runtime.ts';

/** Consecutive outages, without a success in between, after which the breaker opens. */
const OUTAGES_TO_OPEN = 2;

export type BreakerState = 'closed' | 'open' | 'half-open';

/**
 * Leaves an unavailable broker alone. Everything in flight when the broker went away is one outage, so a lost connection
 * does not open the breaker; the second consecutive outage does. After the cooldown one message is let through: its
 * confirmation closes the breaker, its failure opens it again.
 */
export class Breaker {
  readonly #runtime: Runtime;
  readonly #cooldownMs: number;
  #outages = 0;
  #trouble: string | null = null;
  #openUntil: number | null = null;

  constructor(runtime: Runtime, cooldownMs: number) {
    this.#runtime = runtime;
    this.#cooldownMs = cooldownMs;
  }

  get state(): BreakerState {
    if (this.#openUntil === null) return 'closed';
    return this.waitMs > 0 ? 'open' : 'half-open';
  }

  /** How long the breaker stays open. */
  get waitMs(): number {
    return Math.max(0, (this.#openUntil ?? 0) - this.#runtime.clock.monotonic());
  }

  /** The error of the last outage, until a success follows it. */
  get lastOutage(): string | null {
    return this.#lastOutage;
  }
  #lastOutage: string | null = null;

  /** True from the first sign of an outage until `judge`: nothing new may start before that. */
  get isTroubled(): boolean {
    return this.#trouble !== null;
  }

  failed(error: string): void {
    this.#trouble ??= error;
    this.#lastOutage = error;
  }

  succeeded(): void {
    this.#outages = 0;
    this.#lastOutage = null;
    if (this.#openUntil === null) return;
    this.#openUntil = null;
    this.#runtime.emit('relay:breaker-closed', {});
  }

  /** Called when nothing is in flight: all failures since the last call are one outage. */
  judge(): void {
    const error = this.#trouble;
    if (error === null) return;
    this.#trouble = null;
    this.#outages += 1;
    if (this.#outages < OUTAGES_TO_OPEN) return;
    const { clock, emit } = this.#runtime;
    this.#openUntil = clock.monotonic() + this.#cooldownMs;
    emit('relay:breaker-opened', { cooldownMs: this.#cooldownMs, error });
  }
}

/** The slots for messages in flight. Waiters are served in order, so that one that needs all slots gets them. */
export class Window {
  readonly size: number;
  #free: number;
  readonly #waiting: { readonly slots: number; readonly enter: () => void }[] = [];

  constructor(size: number) {
    this.size = size;
    this.#free = size;
  }

  take(slots: number): Promise<void> {
    return new Promise(enter => {
      this.#waiting.push({ slots, enter });
      this.#serve();
    });
  }

  give(slots: number): void {
    this.#free += slots;
    this.#serve();
  }

  /** Runs `fn` while nothing else is in flight. */
  async alone<T>(fn: () => Promise<T>): Promise<T> {
    await this.take(this.size);
    try {
      return await fn();
    } finally {
      this.give(this.size);
    }
  }

  #serve(): void {
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined || next.slots > this.#free) return;
      this.#waiting.shift();
      this.#free -= next.slots;
      next.enter();
    }
  }
}

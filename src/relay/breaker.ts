import type { Runtime } from '../runtime/runtime.ts';

/** Outages in a row, with no success between them, after which a broker is left alone for a while. */
const OUTAGES_TO_OPEN = 2;

export type BreakerState = 'closed' | 'open' | 'half-open';

/**
 * Leaves a broker that is away alone. Everything that was on its way when the broker went is one outage, so a lost
 * connection opens nothing by itself; the second outage in a row does. After the cooldown one message is let through:
 * its confirmation closes the breaker, its failure opens it again.
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

  /** How long the broker is still to be left alone. */
  get waitMs(): number {
    return Math.max(0, (this.#openUntil ?? 0) - this.#runtime.clock.monotonic());
  }

  /** What the last outage said, while no success has come after it. */
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

  /** Called when nothing is on its way any more: all that failed since the last time is one outage. */
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

import type { RelayOutbox } from '../outbox/outbox-store.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import { HedgedStore, type SpareLink } from '../runtime/hedged-store.ts';
import { isUnavailable } from '../errors/error.ts';

const LEASE_MS = 10_000;
const BEAT_MS = 2_000;

/** A relay's own lease: rows of a relay that lost it are free at once, so a killed relay costs seconds. */
export class RelayLease {
  readonly name: string;
  readonly #outbox: HedgedStore<RelayOutbox>;
  readonly #runtime: Runtime;
  #beatenAt = -Infinity;
  #losses = 0;

  /** `openSpare`: another connection, for when that of `outbox` goes silent; null if there is none. */
  constructor(
    outbox: RelayOutbox,
    openSpare: (() => Promise<SpareLink<RelayOutbox>>) | null,
    runtime: Runtime,
  ) {
    this.name = `relay:${runtime.random.token()}`;
    const times = { beatMs: BEAT_MS, leaseMs: LEASE_MS };
    this.#outbox = new HedgedStore(outbox, openSpare, runtime.clock, times);
    this.#runtime = runtime;
  }

  /** False when others may soon consider this relay dead, or do already: it was paused, or its heartbeats fail. */
  get isSure(): boolean {
    return this.#runtime.clock.monotonic() - this.#beatenAt < LEASE_MS / 2;
  }

  /** How often it may have lapsed: a new lease does not restore claims made under the old one. */
  get losses(): number {
    return this.#losses;
  }

  async beat(): Promise<void> {
    const at = this.#runtime.clock.monotonic();
    await this.#outbox.call(outbox => outbox.beat(this.name, LEASE_MS));
    if (this.#runtime.clock.monotonic() - this.#beatenAt >= LEASE_MS) this.#losses += 1;
    this.#beatenAt = at;
  }

  /** Sends heartbeats until the signal aborts, then ends the lease. */
  async keep(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#runtime;
    while (!signal.aborted) {
      await sleep(clock, BEAT_MS, signal);
      const sending = signal.aborted ? this.#leave() : this.beat();
      await sending.catch((error: unknown) => log.warn({ error }, 'relay beat failed'));
    }
  }

  /** Closes the second connection, if one was opened. */
  async close(): Promise<void> {
    await this.#outbox.close();
  }

  async #leave(): Promise<void> {
    await this.#outbox.call(outbox => outbox.leave(this.name));
  }
}

/** An abandoned claim may still take effect for as long as the store lets a statement run, plus a margin. */
const LATE_CLAIM_MS = 60_000;

/**
 * Claims that must be given back and could not be yet: otherwise their rows would wait for the stale timeout, because
 * the relay that holds them is alive.
 */
export class OwedClaims {
  readonly #outbox: Pick<RelayOutbox, 'release'>;
  readonly #runtime: Pick<Runtime, 'clock' | 'log'>;
  /** By token: until when it may still get rows. */
  readonly #lateUntil = new Map<string, number>();

  constructor(outbox: Pick<RelayOutbox, 'release'>, runtime: Pick<Runtime, 'clock' | 'log'>) {
    this.#outbox = outbox;
    this.#runtime = runtime;
  }

  get isEmpty(): boolean {
    return this.#lateUntil.size === 0;
  }

  /** A claim without an answer: it has rows, or none, or will have some. */
  addUnanswered(token: string): void {
    this.#lateUntil.set(token, this.#runtime.clock.monotonic() + LATE_CLAIM_MS);
  }

  /** Frees the rows of a claim, now or as soon as the store can be reached. */
  async giveBack(token: string): Promise<void> {
    try {
      await this.#outbox.release(token);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.#lateUntil.set(token, -Infinity);
      this.#runtime.log.warn({ error }, 'the outbox cannot be reached; giving rows back later');
    }
  }

  /** Called before anything new is claimed. */
  async pay(): Promise<void> {
    for (const [token, lateUntil] of this.#lateUntil) {
      const freed = await this.#outbox.release(token);
      if (freed > 0 || this.#runtime.clock.monotonic() >= lateUntil) this.#lateUntil.delete(token);
    }
  }
}

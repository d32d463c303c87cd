import type { RelayOutbox } from '../outbox/outbox-store.ts';
import { sleep } from '../runtime/clock.ts';
import { HedgedStore, type SpareLink } from '../runtime/hedged-store.ts';
import type { Runtime } from '../runtime/runtime.ts';

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

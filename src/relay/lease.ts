import type { OutboxStore } from '../outbox/outbox-store.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';

const LEASE_MS = 10_000;
const BEAT_MS = 2_000;

/** A relay's own lease: rows of a relay that lost it are free at once, so a killed relay costs seconds. */
export class RelayLease {
  readonly name: string;
  readonly #outbox: OutboxStore;
  readonly #runtime: Runtime;
  #beatenAt = -Infinity;
  #losses = 0;

  constructor(outbox: OutboxStore, runtime: Runtime) {
    this.name = `relay:${runtime.random.token()}`;
    this.#outbox = outbox;
    this.#runtime = runtime;
  }

  /** False when others may think this relay dead soon, or do already: it was paused, or its beats fail. */
  get isSure(): boolean {
    return this.#runtime.clock.monotonic() - this.#beatenAt < LEASE_MS / 2;
  }

  /** How often it may have lapsed: a new lease does not give back what was claimed under the old one. */
  get losses(): number {
    return this.#losses;
  }

  async beat(): Promise<void> {
    const at = this.#runtime.clock.monotonic();
    await this.#outbox.beat(this.name, LEASE_MS);
    if (this.#runtime.clock.monotonic() - this.#beatenAt >= LEASE_MS) this.#losses += 1;
    this.#beatenAt = at;
  }

  /** Beats until the signal aborts, then leaves. */
  async keep(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#runtime;
    while (!signal.aborted) {
      await sleep(clock, BEAT_MS, signal);
      const said = signal.aborted ? this.#outbox.leave(this.name) : this.beat();
      await said.catch((error: unknown) => log.warn({ error }, 'relay beat failed'));
    }
  }
}

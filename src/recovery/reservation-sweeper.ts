import type { AdmissionStore } from '../admission/admission-store.ts';
import { isUnavailable } from '../errors/error.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** A run that needs a reservation under a full key sweeps it itself; this is for keys that no run asks for. */
const EVERY_MS = 15_000;
const LIMIT = 1_000;

/** Frees reservations of runs that ended unreported, wakes the waiting tasks, and deletes unused keys. */
export class ReservationSweeper {
  readonly #store: AdmissionStore;
  readonly #ledger: Pick<Ledger, 'wake'>;
  readonly #runtime: Runtime;
  #dueMs = 0;

  constructor(store: AdmissionStore, ledger: Pick<Ledger, 'wake'>, runtime: Runtime) {
    this.#store = store;
    this.#ledger = ledger;
    this.#runtime = runtime;
  }

  async look(): Promise<void> {
    const { clock, log } = this.#runtime;
    if (clock.monotonic() < this.#dueMs) return;
    this.#dueMs = clock.monotonic() + EVERY_MS;
    try {
      const { freed, wake } = await this.#store.sweep(null, LIMIT);
      if (wake.length > 0) await this.#ledger.wake(wake);
      if (freed > 0) log.info({ freed }, 'reservations of ended runs were freed');
      await this.#store.prune();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      log.warn({ error }, 'reservations cannot be swept now');
    }
  }
}

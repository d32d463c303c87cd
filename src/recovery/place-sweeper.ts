import type { AdmissionStore } from '../admission/admission-store.ts';
import { isUnavailable } from '../errors/error.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** Whoever needs a place under a full key looks for himself; this is for keys nobody asks for. */
const EVERY_MS = 15_000;
const LIMIT = 1_000;

/** Frees places whose runs ended without a word, wakes who waits for them, and forgets keys nobody uses. */
export class PlaceSweeper {
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
      if (freed > 0) log.info({ freed }, 'places of runs that are over were freed');
      await this.#store.prune();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      log.warn({ error }, 'places cannot be swept now');
    }
  }
}

import type { Ledger, RunRef } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { AdmissionStore, Place, PlaceHolder } from './admission-store.ts';
import type { Limit } from './limits.ts';
import { spread } from './rejected.ts';

export interface PlacesDeps {
  readonly store: Pick<AdmissionStore, 'reserve' | 'want' | 'free' | 'sweep'>;
  readonly ledger: Pick<Ledger, 'wake'>;
  readonly runtime: Pick<Runtime, 'clock' | 'random' | 'log'>;
}

/** A run under its limits: it has a place under each, or is to come again. */
export type Entry = { readonly isIn: true; readonly places: readonly Place[] } | Refused;

/** `key` had no room. */
export interface Refused {
  readonly isIn: false;
  readonly key: string;
  readonly limit: number;
  readonly retryAfterMs: number;
}

interface Asking {
  readonly holder: PlaceHolder;
  readonly resolve: (answer: { readonly isIn: boolean; readonly waiting: number }) => void;
  readonly reject: (error: unknown) => void;
}

/** An end wakes whoever waits; this is for ends that nobody told. More who wait look less often. */
const FIRST_WAIT_MS = 2_000;
const WAIT_PER_TASK_MS = 50;
const LONGEST_WAIT_MS = 30_000;
/** The runs under a full key are looked up no more often than this by one process. */
const SWEEP_EVERY_MS = 1_000;
const SWEEP_LIMIT = 1_000;

/** Gives runs their places, and ends them. What asks in the same turn of the event loop travels together. */
export class Places {
  readonly #deps: PlacesDeps;
  readonly #asking = new Map<string, Asking[]>();
  readonly #sweptAt = new Map<string, number>();
  #leaving: Place[] | null = null;

  constructor(deps: PlacesDeps) {
    this.#deps = deps;
  }

  /** A place under every limit or under none. */
  async enter({ id, run }: RunRef, limits: readonly Limit[]): Promise<Entry> {
    const holder = { task: id, run };
    const places: Place[] = [];
    for (const { key, concurrency } of limits) {
      if (concurrency === null) continue;
      try {
        const { isIn, waiting } = await this.#reserve(key, concurrency, holder);
        if (!isIn) {
          this.leave(places);
          const waitMs = Math.min(FIRST_WAIT_MS + waiting * WAIT_PER_TASK_MS, LONGEST_WAIT_MS);
          const retryAfterMs = spread(waitMs, this.#deps.runtime.random.next());
          return { isIn: false, key, limit: concurrency, retryAfterMs };
        }
        places.push({ key, ...holder });
      } catch (error) {
        this.leave(places);
        throw error;
      }
    }
    return { isIn: true, places };
  }

  /**
   * For a task that was refused and has been given back: it is woken when a place under the key is ended. Not before, or an
   * end that comes between would wake nobody.
   */
  async wait(task: string, { key, limit }: Refused): Promise<void> {
    const { store, ledger, runtime } = this.#deps;
    try {
      if (await store.want({ key, limit, task })) await ledger.wake([task]);
    } catch (error) {
      runtime.log.warn({ error, task }, 'nobody will wake the task; it asks again by itself');
    }
  }

  /** Nothing is waited for: a place that could not be ended is swept away. */
  leave(places: readonly Place[]): void {
    if (places.length === 0) return;
    if (this.#leaving !== null) return void this.#leaving.push(...places);
    this.#leaving = [...places];
    queueMicrotask(() => {
      const leaving = this.#leaving ?? [];
      this.#leaving = null;
      void this.#free(leaving);
    });
  }

  async #free(places: readonly Place[]): Promise<void> {
    const { store, ledger, runtime } = this.#deps;
    try {
      await this.#wake(await store.free(places), ledger);
    } catch (error) {
      runtime.log.warn({ error, places: places.length }, 'places were not ended; they are swept');
    }
  }

  async #wake(ids: readonly string[], ledger: Pick<Ledger, 'wake'>): Promise<void> {
    if (ids.length > 0) await ledger.wake(ids);
  }

  #reserve(
    key: string,
    limit: number,
    holder: PlaceHolder,
  ): Promise<{ readonly isIn: boolean; readonly waiting: number }> {
    return new Promise((resolve, reject) => {
      const name = `${limit} ${key}`;
      const asking = this.#asking.get(name);
      if (asking) return void asking.push({ holder, resolve, reject });
      this.#asking.set(name, [{ holder, resolve, reject }]);
      queueMicrotask(() => {
        const all = this.#asking.get(name) ?? [];
        this.#asking.delete(name);
        this.#ask(key, limit, all).catch((error: unknown) => {
          for (const one of all) one.reject(error);
        });
      });
    });
  }

  async #ask(key: string, limit: number, asking: readonly Asking[]): Promise<void> {
    const { store } = this.#deps;
    const holders = asking.map(({ holder }) => holder);
    let { isIn, waiting } = await store.reserve({ key, limit, holders });
    if (isIn.includes(false) && (await this.#sweep(key)))
      ({ isIn, waiting } = await store.reserve({ key, limit, holders }));
    for (const [index, { resolve }] of asking.entries())
      resolve({ isIn: isIn[index] ?? false, waiting });
  }

  /** True: there is room again, because some runs under this key were over and nobody had said so. */
  async #sweep(key: string): Promise<boolean> {
    const { store, ledger, runtime } = this.#deps;
    const now = runtime.clock.monotonic();
    if (now - (this.#sweptAt.get(key) ?? -Infinity) < SWEEP_EVERY_MS) return false;
    if (this.#sweptAt.size > 10_000) this.#sweptAt.clear();
    this.#sweptAt.set(key, now);
    const { freed, wake } = await store.sweep(key, SWEEP_LIMIT);
    await this.#wake(wake, ledger);
    return freed > 0;
  }
}

import type { Ledger, RunRef } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { AdmissionStore, Reservation, ReservationHolder } from './admission-store.ts';
import type { Limit } from './limits.ts';
import { spread } from './permit.ts';

export interface ReservationsDeps {
  readonly store: Pick<AdmissionStore, 'reserve' | 'want' | 'free' | 'sweep'>;
  readonly ledger: Pick<Ledger, 'wake'>;
  readonly runtime: Pick<Runtime, 'clock' | 'random' | 'log'>;
}

/** A run under its limits: it has a reservation under each, or has to come again. */
export type Entry =
  | { readonly isIn: true; readonly reservations: readonly Reservation[] }
  | Refused;

/** The limit of `key` is reached. */
export interface Refused {
  readonly isIn: false;
  readonly key: string;
  readonly limit: number;
  readonly retryAfterMs: number;
}

interface Asking {
  readonly holder: ReservationHolder;
  readonly resolve: (answer: { readonly isIn: boolean; readonly waiting: number }) => void;
  readonly reject: (error: unknown) => void;
}

/** The end of a run wakes a waiter; this covers ends that were not reported. With more waiters, each looks less often. */
const FIRST_WAIT_MS = 2_000;
const WAIT_PER_TASK_MS = 50;
const LONGEST_WAIT_MS = 30_000;
/** One process looks up the runs under a full key no more often than this. */
const SWEEP_EVERY_MS = 1_000;
const SWEEP_LIMIT = 1_000;

/** Takes and frees reservations for runs. Requests of the same turn of the event loop are sent together. */
export class Reservations {
  readonly #deps: ReservationsDeps;
  readonly #asking = new Map<string, Asking[]>();
  readonly #sweptAt = new Map<string, number>();
  #leaving: Reservation[] | null = null;

  constructor(deps: ReservationsDeps) {
    this.#deps = deps;
  }

  /** A reservation under every limit or under none. */
  async enter({ id, run }: RunRef, limits: readonly Limit[]): Promise<Entry> {
    const holder = { task: id, run };
    const reservations: Reservation[] = [];
    for (const { key, concurrency } of limits) {
      if (concurrency === null) continue;
      try {
        const { isIn, waiting } = await this.#reserve(key, concurrency, holder);
        if (!isIn) {
          this.leave(reservations);
          const waitMs = Math.min(FIRST_WAIT_MS + waiting * WAIT_PER_TASK_MS, LONGEST_WAIT_MS);
          const retryAfterMs = spread(waitMs, this.#deps.runtime.random.next());
          return { isIn: false, key, limit: concurrency, retryAfterMs };
        }
        reservations.push({ key, ...holder });
      } catch (error) {
        this.leave(reservations);
        throw error;
      }
    }
    return { isIn: true, reservations };
  }

  /**
   * For a task that was refused and has been given back: it is woken when a reservation under the key ends. Not before, or
   * an end in between would wake no task.
   */
  async wait(task: string, { key, limit }: Refused): Promise<void> {
    const { store, ledger, runtime } = this.#deps;
    try {
      if (await store.want({ key, limit, task })) await ledger.wake([task]);
    } catch (error) {
      runtime.log.warn({ error, task }, 'the task will not be woken; it asks again by itself');
    }
  }

  /** Does not wait: a reservation that could not be freed is swept later. */
  leave(reservations: readonly Reservation[]): void {
    if (reservations.length === 0) return;
    if (this.#leaving !== null) return void this.#leaving.push(...reservations);
    this.#leaving = [...reservations];
    queueMicrotask(() => {
      const leaving = this.#leaving ?? [];
      this.#leaving = null;
      void this.#free(leaving);
    });
  }

  async #free(reservations: readonly Reservation[]): Promise<void> {
    const { store, ledger, runtime } = this.#deps;
    try {
      await this.#wake(await store.free(reservations), ledger);
    } catch (error) {
      runtime.log.warn(
        { error, reservations: reservations.length },
        'reservations were not ended; they are swept',
      );
    }
  }

  async #wake(ids: readonly string[], ledger: Pick<Ledger, 'wake'>): Promise<void> {
    if (ids.length > 0) await ledger.wake(ids);
  }

  #reserve(
    key: string,
    limit: number,
    holder: ReservationHolder,
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

  /** True: the key has capacity again, because some of its runs had ended unreported. */
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

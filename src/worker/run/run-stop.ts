/** Why a run is ended from outside: `lost` writes nothing, `release` gives back. */
export type StopReason = 'lost' | 'release';

/**
 * How a worker ends a run from outside. Hardly any run is: the signal is created on first access, because creating
 * one for every run costs more than a short handler.
 */
export class RunStop {
  /** Fires when the worker drains. */
  readonly draining: AbortSignal;
  /** Nearly always one at most: further listeners are in a separate list. */
  #listener: (() => void) | null = null;
  #others: readonly (() => void)[] | null = null;
  #reason: StopReason | null = null;
  #controller: AbortController | null = null;

  constructor(draining: AbortSignal) {
    this.draining = draining;
  }

  /** Null: the run goes on. */
  get reason(): StopReason | null {
    return this.#reason;
  }

  /** Aborts with the reason. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#reason !== null) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first reason counts. */
  stop(reason: StopReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
    const [listener, others] = [this.#listener, this.#others];
    this.#listener = this.#others = null;
    listener?.();
    if (others !== null) for (const other of others) other();
  }

  /** Calls `fn` when the run is stopped, at once if it has been. */
  onStop(fn: () => void): void {
    if (this.#reason !== null) fn();
    else if (this.#listener === null) this.#listener = fn;
    else this.#others = [...(this.#others ?? []), fn];
  }

  /** Undoes `onStop`. */
  offStop(fn: () => void): void {
    if (this.#listener === fn) this.#listener = null;
    else if (this.#others !== null) this.#others = this.#others.filter(other => other !== fn);
  }
}

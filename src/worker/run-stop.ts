/** Why a run is ended from outside: `lost` writes nothing, `release` gives back. */
export type StopReason = 'lost' | 'release';

const NOBODY: readonly (() => void)[] = [];

/**
 * How a worker ends a run from outside. Hardly any run is: the signal is made for whoever asks for it, because making
 * one for every run costs more than a short handler.
 */
export class RunStop {
  /** Fires when the worker drains. */
  readonly draining: AbortSignal;
  /** One at most, nearly always. */
  #listeners: readonly (() => void)[] = NOBODY;
  #reason: StopReason | null = null;
  #controller: AbortController | null = null;

  constructor(draining: AbortSignal) {
    this.draining = draining;
  }

  /** Null: it goes on. */
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
    const listeners = this.#listeners;
    this.#listeners = NOBODY;
    for (const listener of listeners) listener();
  }

  /** Calls `fn` when it is stopped, at once where it has been. Returns the undo. */
  onStop(fn: () => void): () => void {
    if (this.#reason !== null) {
      fn();
      return () => undefined;
    }
    this.#listeners = [...this.#listeners, fn];
    return () => {
      this.#listeners = this.#listeners.filter(listener => listener !== fn);
    };
  }
}

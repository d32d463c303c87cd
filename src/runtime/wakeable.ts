import { sleep, type Clock } from './clock.ts';

/**
 * A sleep that hints can cut short. A hint that comes while nobody sleeps is remembered once, so a
 * wake-up between "nothing to do" and "going to sleep" is not lost.
 */
export class Wakeable {
  readonly #clock: Clock;
  #wake: AbortController | undefined;
  #hinted = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Wakes the sleeper, or the next one. */
  readonly hint = (): void => {
    this.#hinted = true;
    this.#wake?.abort();
  };

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#hinted && !signal.aborted) {
      this.#wake = new AbortController();
      const either = AbortSignal.any([signal, this.#wake.signal]);
      await sleep(this.#clock, ms, either);
      this.#wake = undefined;
    }
    this.#hinted = false;
  }
}

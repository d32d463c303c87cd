import type { Clock } from './clock.ts';

/**
 * A sleep that hints can cut short. A hint that comes while there is no sleeper is remembered once, so a
 * wake-up between "nothing to do" and "going to sleep" is not lost.
 */
export class Wakeable {
  readonly #clock: Clock;
  #wake: (() => void) | undefined;
  #hinted = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Wakes the sleeper, or the next one. */
  readonly hint = (): void => {
    this.#hinted = true;
    this.#wake?.();
  };

  /** True when a hint ended it. */
  async sleep(ms: number, signal: AbortSignal): Promise<boolean> {
    if (!this.#hinted && !signal.aborted) {
      await new Promise<void>(resolve => {
        const done = (): void => {
          cancel();
          signal.removeEventListener('abort', done);
          this.#wake = undefined;
          resolve();
        };
        const cancel = this.#clock.timer(ms, done);
        signal.addEventListener('abort', done, { once: true });
        this.#wake = done;
      });
    }
    const wasHinted = this.#hinted;
    this.#hinted = false;
    return wasHinted;
  }
}

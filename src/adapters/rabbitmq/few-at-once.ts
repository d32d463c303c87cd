import { sleep, systemClock } from '../../runtime/clock.ts';

/** Runs a few functions at a time. One that takes too long gives up its slot to the next, and continues beside it. */
export class FewAtOnce {
  readonly #limitMs: number;
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(slots: number, limitMs: number) {
    this.#free = slots;
    this.#limitMs = limitMs;
  }

  async run<T>(fn: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>(resolve => void this.#waiting.push(resolve));
    const running = fn();
    const ended = new AbortController();
    const end = (): void => ended.abort();
    running.then(end, end);
    void sleep(systemClock, this.#limitMs, ended.signal).then(() => this.#leave());
    return await running;
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}

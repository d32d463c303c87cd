import { systemClock, type Clock } from '../runtime/runtime.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import { VirtualTime } from './virtual-time.ts';

/** The clock of a test kit: stores, workers and relays live by it, and it moves only when it is told to. */
export interface KitClock {
  now(): Date;
  /** Lets this much time pass: everything that is due on the way happens in its order. */
  advance(by: Duration): Promise<void>;
}

/** Turns of the event loop in which nothing happened: what can go on without time has gone on. */
const QUIET_TURNS = 10;

/** Virtual time from a date on; only one caller moves it at a time. */
export class KitTime implements KitClock {
  readonly #time = new VirtualTime();
  readonly #startMs: number;
  #moving: Promise<void> = Promise.resolve();

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  get nowMs(): number {
    return this.#startMs + this.#time.nowMs;
  }

  now(): Date {
    return new Date(this.nowMs);
  }

  async advance(by: Duration): Promise<void> {
    await this.moveBy(durationMs(by, 'advance'));
  }

  moveBy(ms: number): Promise<void> {
    const moved = this.#moving.then(() => this.#time.runUntil(this.#time.nowMs + ms));
    this.#moving = moved.catch(() => undefined);
    return moved;
  }

  /** Runs what is due now, until `count` has stayed the same for a while. */
  async settle(count: () => number): Promise<void> {
    let seen = -1;
    for (let turns = 0; turns < QUIET_TURNS; turns++) {
      if (count() !== seen) [seen, turns] = [count(), 0];
      await this.moveBy(0);
    }
  }

  /** The clock of something that lives by this time alone. */
  get clock(): Clock {
    return {
      now: () => this.nowMs,
      monotonic: () => this.#time.nowMs,
      timer: (ms, fn) => this.#time.after(ms, fn),
    };
  }

  /** The clock of the test itself: what it waits for comes with either time, so that no test waits for ever. */
  get callersClock(): Clock {
    return {
      now: () => this.nowMs,
      monotonic: () => this.#time.nowMs + systemClock.monotonic(),
      timer: (ms, fn) => {
        const undo = [this.#time.after(ms, () => fire()), systemClock.timer(ms, () => fire())];
        const cancel = (): void => undo.forEach(one => one());
        const fire = (): void => {
          cancel();
          fn();
        };
        return cancel;
      },
    };
  }
}

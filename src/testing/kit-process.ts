import type { Clock } from '../runtime/runtime.ts';

/** Never settles: no line of a dead process runs any more. */
const NEVER: Promise<never> = new Promise(() => undefined);

/** A worker or relay as an operating system sees it: it may die, and then nothing reaches it, or comes from it, any more. */
export class KitProcess {
  readonly name: string;
  readonly clock: Clock;
  /** Where it died; null: it lives. */
  diedAt: string | null = null;
  /** Rejects when it dies: what it holds outside of memory must be given back then. */
  readonly death: Promise<never>;
  #tellDeath: (error: Error) => void = () => undefined;

  constructor(name: string, clock: Clock) {
    this.name = name;
    this.clock = {
      ...clock,
      timer: (ms, fn) => clock.timer(ms, () => (this.isAlive ? fn() : undefined)),
    };
    this.death = new Promise((_, reject) => (this.#tellDeath = reject));
    this.death.catch(() => undefined);
  }

  get isAlive(): boolean {
    return this.diedAt === null;
  }

  die(point: string): Promise<never> {
    this.diedAt = point;
    this.#tellDeath(new Error(`the process died at ${point}`));
    return NEVER;
  }

  /** As nothing else reaches a dead process, neither does an error. */
  async outlived<T>(work: Promise<T>): Promise<T> {
    return await this.#awaited(work);
  }

  /** The same ports, as this process reaches them. */
  through<S extends object>(ports: S): S {
    return new Proxy(ports, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value === 'object' && value !== null) return this.through(value);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]): unknown => {
          if (!this.isAlive) return NEVER;
          const answer: unknown = (value as (...given: unknown[]) => unknown).apply(target, args);
          return answer instanceof Promise ? this.#awaited(answer) : answer;
        };
      },
    });
  }

  async #awaited<T>(answer: Promise<T>): Promise<T> {
    try {
      const value = await answer;
      return this.isAlive ? value : await NEVER;
    } catch (error) {
      if (this.isAlive) throw error;
      return await NEVER;
    }
  }
}

import type { FileHandle } from 'node:fs/promises';
import { outlastError } from '../../errors/error.ts';

/**
 * A folder on a network may answer nothing for as long as its server is away, and each call takes one of the four threads of
 * this process that also look up names and compress.
 */
const AT_ONCE = 2;

/**
 * Calls into the file system with a limit. A call cannot be ended, only left behind: until it comes back nothing else
 * is tried, so that at most two threads are lost to a folder that hangs.
 */
export class PatientFiles {
  readonly #folder: string;
  readonly #limitMs: number;
  #running = 0;
  /** Calls that have taken longer than the limit and have not come back. */
  #late = 0;
  readonly #waiting = new Set<() => void>();

  constructor(folder: string, limitMs: number) {
    this.#folder = folder;
    this.#limitMs = limitMs;
  }

  /** @param leave called with what a call returns that was left behind */
  async call<T>(work: () => Promise<T>, leave: (value: T) => void = () => undefined): Promise<T> {
    const endsAt = performance.now() + this.#limitMs;
    while (this.#running >= AT_ONCE && this.#late === 0) await this.#turn(endsAt);
    if (this.#late > 0) throw this.#away();
    this.#running += 1;
    const state = { isLate: false };
    const working = work().finally(() => {
      this.#running -= 1;
      if (state.isLate) this.#late -= 1;
      this.#wake();
    });
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        state.isLate = true;
        this.#late += 1;
        working.then(leave, () => undefined);
        this.#wake();
        reject(this.#away());
      }, this.#limitMs);
    });
    try {
      return await Promise.race([working, limit]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** A file is closed behind calls that still use it; in a folder that hangs no call waits for that. */
  async close(file: FileHandle): Promise<void> {
    if (this.#late > 0) void file.close().catch(() => undefined);
    else await this.call(() => file.close());
  }

  async #turn(endsAt: number): Promise<void> {
    await new Promise<void>(resolve => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.max(0, endsAt - performance.now()));
      this.#waiting.add(wake);
    });
    if (performance.now() >= endsAt) throw this.#away();
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }

  #away(): Error {
    return outlastError('ERR_STORE_UNAVAILABLE', {
      message: `the folder ${this.#folder} has not answered within ${this.#limitMs / 1_000} s`,
      hint: 'Check the server that `worker.checkpointFolder` is on, and whether this machine can reach it.',
      fields: {},
    });
  }
}

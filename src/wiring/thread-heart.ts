import { Worker as Thread } from 'node:worker_threads';
import type { DatabaseTarget } from '../config/database-url.ts';
import type { Logger } from '../telemetry/logger.ts';
import { systemClock } from '../runtime/clock.ts';
import type { Beat, Heart } from '../worker/heart.ts';
import { HEART_BYTES, HEART_SLOTS, type HeartThreadData } from './heart-data.ts';

export interface ThreadHeartOptions {
  readonly target: DatabaseTarget;
  readonly beatMs: number;
  readonly maxBlockMs: number;
  readonly log: Logger;
}

/** The main loop proves that it turns at least this often. */
const TICK_MS = 250;

/** A heart in a thread of its own, with a connection of its own. */
export class ThreadHeart implements Heart {
  readonly #options: ThreadHeartOptions;
  readonly #shared = new SharedArrayBuffer(HEART_BYTES);
  readonly #slots = new Float64Array(this.#shared);
  #thread: Thread | undefined;
  #ticker: NodeJS.Timeout | undefined;
  #onBeat: (beat: Beat) => void = () => undefined;
  #worker = '';
  #isStopped = false;

  constructor(options: ThreadHeartOptions) {
    this.#options = options;
  }

  beatFor(worker: string, sentAt: number, onBeat: (beat: Beat) => void): void {
    this.#onBeat = onBeat;
    this.#worker = worker;
    this.#slots[HEART_SLOTS.lastBeatAt] = sentAt;
    this.#tick();
    this.#ticker ??= setInterval(() => this.#tick(), TICK_MS).unref();
    if (this.#thread) this.#thread.postMessage(worker);
    else this.#thread = this.#start();
  }

  lastBeatAt(): number {
    return this.#slots[HEART_SLOTS.lastBeatAt] ?? 0;
  }

  #tick(): void {
    this.#slots[HEART_SLOTS.tickedAt] = systemClock.monotonic();
  }

  #start(): Thread {
    const { target, beatMs, maxBlockMs, log } = this.#options;
    const workerData: HeartThreadData = {
      target,
      worker: this.#worker,
      beatMs,
      maxBlockMs,
      shared: this.#shared,
    };
    // Flags of the main thread (a debugger, a loader) are not for this one.
    const thread = new Thread(new URL('./heart-thread.js', import.meta.url), {
      workerData,
      execArgv: [],
    });
    thread.on('message', (message: Beat | { readonly error: string }) => {
      if ('error' in message) log.warn({ error: message.error }, 'beat failed');
      else this.#onBeat(message);
    });
    const lost = (error: unknown): void => {
      if (this.#isStopped || this.#thread !== thread) return;
      log.error({ error }, 'the beat thread ended; starting another');
      this.#thread = undefined;
      setTimeout(() => {
        if (!this.#isStopped && !this.#thread) this.#thread = this.#start();
      }, beatMs);
    };
    thread.on('error', lost);
    thread.on('exit', lost);
    return thread;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#ticker);
    await this.#thread?.terminate();
  }
}

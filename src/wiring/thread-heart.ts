import { Worker as Thread } from 'node:worker_threads';
import type { ResolvedConfig } from '../config/config.ts';
import { requireLedger } from '../config/database-url.ts';
import { systemClock } from '../runtime/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Beat, Heart } from '../worker/heart.ts';
import {
  HEART_BYTES,
  HEART_SLOTS,
  type FromHeart,
  type HeartTarget,
  type HeartThreadData,
} from './heart-data.ts';
import { ledgerParts } from './messaging.ts';

type HeartConfig = Pick<ResolvedConfig, 'database' | 'broker' | 'ledger' | 'worker'>;

/** The main loop proves that it turns at least this often. */
const TICK_MS = 250;

/** A heart in a thread of its own, with a connection of its own. */
export class ThreadHeart implements Heart {
  readonly #data: HeartThreadData;
  readonly #log: Logger;
  readonly #shared = new SharedArrayBuffer(HEART_BYTES);
  readonly #slots = new Float64Array(this.#shared);
  readonly #ticker: NodeJS.Timeout;
  #thread: Thread | undefined;
  #ready: Promise<void>;
  #onBeat: (beat: Beat) => void = () => undefined;
  #worker = '';
  #isStopped = false;

  constructor(config: HeartConfig, log: Logger) {
    const { beatMs, maxBlockMs } = config.worker;
    this.#data = { target: targetOf(config), beatMs, maxBlockMs, shared: this.#shared };
    this.#log = log;
    this.#tick();
    this.#ticker = setInterval(() => this.#tick(), TICK_MS).unref();
    this.#ready = this.#start();
  }

  /** A thread takes a moment to load and connect: longer, on a busy machine, than a lease lasts. */
  async ready(): Promise<void> {
    await this.#ready;
  }

  beatFor(worker: string, sentAt: number, onBeat: (beat: Beat) => void): void {
    this.#onBeat = onBeat;
    this.#worker = worker;
    this.#slots[HEART_SLOTS.lastBeatAt] = sentAt;
    this.#thread?.postMessage(worker);
  }

  lastBeatAt(): number {
    return this.#slots[HEART_SLOTS.lastBeatAt] ?? 0;
  }

  #tick(): void {
    this.#slots[HEART_SLOTS.tickedAt] = systemClock.monotonic();
  }

  #start(): Promise<void> {
    const log = this.#log;
    // Flags of the main thread (a debugger, a loader) are not for this one.
    const url = new URL('./heart-thread.js', import.meta.url);
    const thread = new Thread(url, { workerData: this.#data, execArgv: [] });
    this.#thread = thread;
    return new Promise(resolve => {
      thread.on('message', (message: FromHeart) => {
        if (message.kind === 'beat') return this.#onBeat(message.beat);
        if (message.kind === 'failed') return log.warn({ error: message.error }, 'beat failed');
        if (this.#worker !== '') thread.postMessage(this.#worker);
        resolve();
      });
      thread.on('error', error => this.#restart(thread, error, resolve));
      thread.on('exit', code => this.#restart(thread, `exit ${code}`, resolve));
    });
  }

  /** Without a heart the process would lose its lease: one that ended is replaced. */
  #restart(thread: Thread, error: unknown, resolve: () => void): void {
    if (this.#isStopped) return resolve();
    // An error is told first, then the exit: there is another already, or will be.
    if (this.#thread !== thread) return;
    this.#log.error({ error }, 'the beat thread ended; starting another');
    this.#thread = undefined;
    setTimeout(() => {
      if (this.#isStopped) return resolve();
      this.#ready = this.#start();
      void this.#ready.then(resolve);
    }, this.#data.beatMs);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#ticker);
    await this.#thread?.terminate();
  }
}

function targetOf(config: HeartConfig): HeartTarget {
  const ledger = ledgerParts(config);
  if (ledger !== null) return { kind: 'redis', ledger };
  return { kind: 'database', database: requireLedger(config.database) };
}

import { getHeapStatistics } from 'node:v8';
import { Worker as Thread } from 'node:worker_threads';
import type { ResolvedConfig } from '../../config/config.ts';
import { requireLedger } from '../../config/database-url.ts';
import { systemClock } from '../../runtime/runtime.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Beat, Heartbeat } from '../../worker/lease/heartbeat.ts';
import {
  HEART_BYTES,
  HEARTBEAT_SLOTS,
  type FromHeartbeat,
  type HeartbeatThreadData,
} from './heartbeat-data.ts';
import { ledgerParts } from '../../context/messaging.ts';
import type { LeaseTarget } from '../../context/openers.ts';
import { ownPart } from '../worker-spec.ts';

type HeartbeatConfig = Pick<ResolvedConfig, 'database' | 'broker' | 'ledger' | 'worker'>;

/** The main loop records that it turns at least this often. */
const TICK_MS = 250;

/** The entry file of the thread; throws when a bundler left it behind. */
export const heartbeatEntry = (): URL =>
  ownPart('heartbeat-thread.js', () => new URL('./heartbeat-thread.js', import.meta.url));

/** A heartbeat in a separate thread, with its own connection. */
export class HeartbeatClient implements Heartbeat {
  readonly #data: HeartbeatThreadData;
  readonly #log: Logger;
  readonly #entry = heartbeatEntry();
  readonly #shared = new SharedArrayBuffer(HEART_BYTES);
  readonly #slots = new Float64Array(this.#shared);
  readonly #ticker: NodeJS.Timeout;
  #thread: Thread | undefined;
  #ready: Promise<void>;
  #onBeat: (beat: Beat) => void = () => undefined;
  #worker = '';
  #isStopped = false;

  constructor(config: HeartbeatConfig, log: Logger, lastWordsFd: number | null = null) {
    const { beatMs, leaseMs, maxBlockMs } = config.worker;
    const times = { beatMs, leaseMs, maxBlockMs };
    const { heap_size_limit: heapBytes } = getHeapStatistics();
    this.#data = {
      target: targetOf(config),
      ...times,
      heapBytes,
      lastWordsFd,
      shared: this.#shared,
    };
    this.#log = log;
    this.#tick();
    this.#ticker = setInterval(() => this.#tick(), TICK_MS).unref();
    this.#ready = this.#start();
  }

  /** A thread takes a moment to load and connect: on a busy machine, longer than a lease lasts. */
  async ready(): Promise<void> {
    await this.#ready;
  }

  beatFor(worker: string, sentAt: number, onBeat: (beat: Beat) => void): void {
    this.#onBeat = onBeat;
    this.#worker = worker;
    this.#slots[HEARTBEAT_SLOTS.lastBeatAt] = sentAt;
    this.#thread?.postMessage(worker);
  }

  lastBeatAt(): number {
    return this.#slots[HEARTBEAT_SLOTS.lastBeatAt] ?? 0;
  }

  #tick(): void {
    this.#slots[HEARTBEAT_SLOTS.tickedAt] = systemClock.monotonic();
  }

  #start(): Promise<void> {
    const log = this.#log;
    // Flags of the main thread (a debugger, a loader) are not for this one.
    const thread = new Thread(this.#entry, { workerData: this.#data, execArgv: [] });
    this.#thread = thread;
    return new Promise(resolve => {
      thread.on('message', (message: FromHeartbeat) => {
        if (message.kind === 'beat') return this.#onBeat(message.beat);
        if (message.kind === 'failed') return log.warn({ error: message.error }, 'beat failed');
        if (this.#worker !== '') thread.postMessage(this.#worker);
        resolve();
      });
      thread.on('error', error => this.#restart(thread, error, resolve));
      thread.on('exit', code => this.#restart(thread, `exit ${code}`, resolve));
    });
  }

  /** Without a heartbeat the process would lose its lease: a thread that ended is replaced. */
  #restart(thread: Thread, error: unknown, resolve: () => void): void {
    if (this.#isStopped) return resolve();
    // The error event comes before the exit event: a replacement is there already, or will be.
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

function targetOf(config: HeartbeatConfig): LeaseTarget {
  const ledger = ledgerParts(config);
  if (ledger !== null) return { kind: 'redis', ledger };
  return { kind: 'database', database: requireLedger(config.database) };
}

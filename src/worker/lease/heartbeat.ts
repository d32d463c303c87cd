import type { Ledger, RenewReply } from '../../ledger/ledger.ts';
import { type Clock, type Runtime, sleep } from '../../runtime/runtime.ts';
import { RunListPace } from './run-list-pace.ts';

/** One answered beat. */
export interface Beat {
  readonly worker: string;
  /** When it was sent, on the monotonic clock: the lease is counted from here, not from the answer. */
  readonly sentAt: number;
  readonly reply: RenewReply;
}

/** Keeps the lease of one process alive: one beat for the process, however many tasks it runs. */
export interface Heartbeat {
  /** Resolves when the first beat can be sent without delay: no lease is taken before. */
  ready(): Promise<void>;
  /** Sends beats for this incarnation from now on, instead of any before. It was opened by a call sent at `sentAt`. */
  beatFor(worker: string, sentAt: number, onBeat: (beat: Beat) => void): void;
  /** When the last answered beat was sent. Read from shared memory where the heartbeat is a thread. */
  lastBeatAt(): number;
  stop(): Promise<void>;
}

/** Waits for the heartbeat until the signal aborts; leaves no listener behind. */
export function untilReady(heartbeat: Heartbeat, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      signal.removeEventListener('abort', done);
      resolve();
    };
    if (signal.aborted) return resolve();
    signal.addEventListener('abort', done, { once: true });
    heartbeat.ready().then(done, reject);
  });
}

/** A heartbeat on the event loop of its process: for the simulator, and for workers embedded in an application process. */
export class LoopHeartbeat implements Heartbeat {
  readonly #ledger: Pick<Ledger, 'renew'>;
  readonly #runtime: Runtime;
  readonly #beatMs: number;
  readonly #lists: RunListPace;
  #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #lastBeatAt = 0;

  constructor(ledger: Pick<Ledger, 'renew'>, runtime: Runtime, beatMs: number) {
    this.#ledger = ledger;
    this.#runtime = runtime;
    this.#beatMs = beatMs;
    this.#lists = new RunListPace(runtime.clock);
  }

  ready(): Promise<void> {
    return Promise.resolve();
  }

  beatFor(worker: string, sentAt: number, onBeat: (beat: Beat) => void): void {
    this.#stopping.abort();
    const stopping = new AbortController();
    this.#stopping = stopping;
    this.#lastBeatAt = sentAt;
    this.#running = this.#run(worker, onBeat, stopping.signal);
  }

  lastBeatAt(): number {
    return this.#lastBeatAt;
  }

  async #run(worker: string, onBeat: (beat: Beat) => void, signal: AbortSignal): Promise<void> {
    const { clock, faultPoint, log } = this.#runtime;
    for (;;) {
      await sleep(clock, this.#beatMs, signal);
      if (signal.aborted) return;
      const sentAt = clock.monotonic();
      try {
        const reply = await this.#renew(worker, sentAt);
        if (signal.aborted) return;
        await faultPoint('heartbeat.renewed');
        if (reply.status === 'open') this.#lastBeatAt = sentAt;
        onBeat({ worker, sentAt, reply });
        if (reply.status === 'closed') return;
      } catch (error) {
        log.warn({ worker, error }, 'beat failed');
      }
    }
  }

  async #renew(worker: string, sentAt: number): Promise<RenewReply> {
    const { isDue } = this.#lists;
    let tookMs: number | null = null;
    try {
      const reply = await this.#ledger.renew(worker, isDue);
      tookMs = this.#runtime.clock.monotonic() - sentAt;
      return reply;
    } finally {
      if (isDue) this.#lists.listed(tookMs);
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }
}

/**
 * The lease of this process by its own clocks: it counts from the sending of the last answered beat, and ends a moment
 * before the lease in the store does.
 */
export class LeaseWatch {
  readonly #heartbeat: Pick<Heartbeat, 'lastBeatAt'>;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #marginMs: number;
  /** How far the wall clock was ahead of the monotonic one at the last beat. */
  #aheadMs: number;

  constructor(heartbeat: Pick<Heartbeat, 'lastBeatAt'>, clock: Clock, leaseMs: number) {
    this.#heartbeat = heartbeat;
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#marginMs = Math.min(1_000, leaseMs / 5);
    this.#aheadMs = clock.now() - clock.monotonic();
  }

  /** A beat was answered, or an incarnation opened. */
  noteBeat(): void {
    this.#aheadMs = this.#clock.now() - this.#clock.monotonic();
  }

  /**
   * Evaluated at this very moment. A process that was stopped, or whose machine slept, resumes before any timer or message can
   * notify it, so code that is about to start something checks here. A sleeping machine may stop the monotonic clock as well,
   * so what the wall clock has gained on it since the last beat counts too.
   */
  get isOver(): boolean {
    const sleptMs = this.#clock.now() - this.#clock.monotonic() - this.#aheadMs;
    return this.#leftMs() - Math.max(0, sleptMs) <= 0;
  }

  /** Calls `fence` when it is over, and again for as long as that lasts. Returns a function that stops it. */
  watch(fence: () => void): () => void {
    let cancel = (): void => undefined;
    const look = (): void => {
      const leftMs = this.#leftMs();
      if (leftMs <= 0) fence();
      cancel = this.#clock.timer(Math.max(leftMs, this.#marginMs / 2), look);
    };
    cancel = this.#clock.timer(this.#leaseMs - this.#marginMs, look);
    return () => cancel();
  }

  /** By the monotonic clock alone. */
  #leftMs(): number {
    const endsAt = this.#heartbeat.lastBeatAt() + this.#leaseMs - this.#marginMs;
    return endsAt - this.#clock.monotonic();
  }
}

import { sleep, type Clock } from '../runtime/runtime.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Snapshot } from './view.ts';

export interface LiveViewDeps {
  readonly read: () => Promise<Snapshot>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A commit or a checkpoint sends no notification, so the database is polled this often. */
const POLL_MS = 300;
/** Hints come in bursts: a relay that moves a batch, a worker that begins it. */
const SETTLE_MS = 30;
/** The page may use a fifth of the database's time, however slow the database has become. */
const REST_FACTOR = 4;
const LONGEST_WAIT_MS = 60_000;

/**
 * One snapshot for all viewers of the page.
 *
 *   idle ──first viewer──► reading: look, send changes, wait for a hint or the next poll
 *    ▲                         │
 *    └─────last viewer left────┘
 */
export class LiveView {
  readonly #deps: LiveViewDeps;
  readonly #wake: Wakeable;
  readonly #viewers = new Set<Wakeable>();
  readonly #stop = new AbortController();
  #picture = '';
  #reading: Promise<void> | undefined;

  constructor(deps: LiveViewDeps) {
    this.#deps = deps;
    this.#wake = new Wakeable(deps.clock);
  }

  /** Something may have changed. */
  readonly hint = (): void => this.#wake.hint();

  /**
   * The snapshot and every later one, until the viewer leaves or the view stops. A slow viewer gets the
   * newest and misses those in between.
   */
  async *follow(signal: AbortSignal): AsyncGenerator<string, void> {
    const viewer = new Wakeable(this.#deps.clock);
    this.#viewers.add(viewer);
    this.#reading ??= this.#readWhileWatched();
    const ending = AbortSignal.any([signal, this.#stop.signal]);
    let seen = '';
    try {
      while (!signal.aborted) {
        if (this.#picture !== seen) yield (seen = this.#picture);
        else if (ending.aborted) return;
        else await viewer.sleep(LONGEST_WAIT_MS, ending);
      }
    } finally {
      this.#viewers.delete(viewer);
      this.#wake.hint();
    }
  }

  /** One last read, and none after it: viewers see how everything ended. */
  async stop(): Promise<void> {
    if (this.#viewers.size > 0) await this.#look();
    this.#stop.abort();
    await this.#reading;
  }

  async #readWhileWatched(): Promise<void> {
    const { clock } = this.#deps;
    const { signal } = this.#stop;
    while (this.#viewers.size > 0 && !signal.aborted) {
      const startedAt = clock.monotonic();
      await this.#look();
      const restMs = REST_FACTOR * (clock.monotonic() - startedAt);
      await sleep(clock, Math.max(SETTLE_MS, restMs), signal);
      await this.#wake.sleep(POLL_MS, signal);
    }
    if (signal.aborted) return;
    // The next viewer must not see the state of an hour ago.
    this.#picture = '';
    this.#reading = undefined;
  }

  async #look(): Promise<void> {
    try {
      const picture = JSON.stringify(await this.#deps.read());
      if (picture === this.#picture) return;
      this.#picture = picture;
      for (const viewer of this.#viewers) viewer.hint();
    } catch (error) {
      // The page keeps the last snapshot; the services report a store that is away.
      this.#deps.log.warn({ error }, 'the page cannot read the database');
    }
  }
}

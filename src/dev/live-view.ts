import { sleep, type Clock } from '../runtime/clock.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Snapshot } from './view.ts';

export interface LiveViewDeps {
  readonly read: () => Promise<Snapshot>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A commit or a checkpoint notifies nobody, so the database is looked at this often. */
const POLL_MS = 300;
/** Hints come in bursts: a relay that moves a batch, a worker that begins it. */
const SETTLE_MS = 30;
/** The page may take one part in five of the database's time, however slow that has become. */
const REST_FACTOR = 4;
const LONGEST_WAIT_MS = 60_000;

/**
 * One picture for all who look at the page.
 *
 *   idle ──first viewer──► reading: look, tell what changed, wait for a hint or the next poll
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
   * The picture and every later one, until the viewer or everything ends. Who is slow gets the newest
   * and misses those in between.
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

  /** One last look, and none after it: viewers see how everything ended. */
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
    // Whoever comes next must not be shown how it was an hour ago.
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
      // The page keeps the last picture; the services tell of a store that is away.
      this.#deps.log.warn({ error }, 'the page cannot read the database');
    }
  }
}

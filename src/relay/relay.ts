import { DestinationGuard } from '../broker/destination-guard.ts';
import { isUnavailable, outlastError } from '../errors/error.ts';
import { BATCH_BYTES, bytesOfEnvelope } from '../ledger/batch-limits.ts';
import type { MovedRow, OutboxStore } from '../outbox/outbox-store.ts';
import type { OutboxSample } from '../outbox/outbox-reads.ts';
import { roundMs } from '../telemetry/logger.ts';
import { sleep } from '../runtime/runtime.ts';
import { RetryPace } from '../runtime/backoff.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import { Batch, type BatchShared } from './batch.ts';
import { Breaker, type BreakerState, Window } from './breaker.ts';
import { OwedClaims, RelayLease } from './claims.ts';
import { Receipts } from './receipts.ts';
import type { RelayDeps } from './relay-deps.ts';

const STORE_RETRY = { baseMs: 500, maxMs: 5_000 };
/** After a pass that found something. */
const SOON_MS = 50;
/** A waiting relay reports at least this often that it is alive. */
const PULSE_MS = 1_000;

/** Every row of such a queue reports the same. */
const SILENCE_LOG_MS = 10_000;

/** The state of a relay, for probes. */
export interface RelayStatus {
  /** Since the last progress, or the last pass that found nothing to move. */
  readonly idleMs: number;
  readonly breaker: BreakerState;
  /** The newest figures of the outbox; null before the first. */
  readonly sample: OutboxSample | null;
  /** Dead letters of workers; null: the ledger has not said. */
  readonly workerLetters: number | null;
}

/** The result of one pass over the outbox. */
interface Pass {
  readonly taken: number;
  readonly sent: number;
}

/**
 * Publishes committed tasks. If outbox and ledger are one database, a single statement moves them; otherwise claim ->
 * publish -> settle, where only rows that still carry our token are settled. The next rows are claimed while the
 * previous ones are in flight.
 */
export class Relay {
  readonly #deps: RelayDeps;
  readonly #lease: RelayLease;
  readonly #breaker: Breaker;
  readonly #shared: BatchShared;
  readonly #wake: Wakeable;
  readonly #storePace: RetryPace;
  readonly #owed: OwedClaims;
  /** Null: no row waits for the end of its task. */
  readonly #receipts: Receipts | null;
  #movedAt: number;
  #sample: OutboxSample | null = null;
  #workerLetters: number | null = null;
  /** The last error of a silent destination, since it was last read. */
  #silent: string | null = null;
  #silentLoggedAt = -Infinity;

  constructor(deps: RelayDeps) {
    const { runtime, settings } = deps;
    this.#deps = deps;
    this.#lease = new RelayLease(deps.outbox, deps.openSpare ?? null, runtime);
    this.#breaker = new Breaker(runtime, settings.brokerOutageCooldownMs);
    this.#owed = new OwedClaims(deps.outbox, runtime);
    this.#wake = new Wakeable(runtime.clock);
    this.#storePace = new RetryPace(runtime, STORE_RETRY, {
      failing: 'the outbox cannot be reached; trying again',
      over: 'the outbox can be reached again',
    });
    const { outbox, receipts } = deps;
    this.#receipts =
      receipts === undefined || outbox.move !== null
        ? null
        : new Receipts({
            ...receipts,
            store: outbox.receipts,
            runtime,
            onFree: () => this.#wake.hint(),
          });
    this.#movedAt = runtime.clock.monotonic();
    this.#shared = {
      window: new Window(settings.publishConcurrency),
      breaker: this.#breaker,
      lease: this.#lease,
      giveBack: token => this.#owed.giveBack(token),
      onProgress: () => (this.#movedAt = runtime.clock.monotonic()),
      guard: new DestinationGuard(deps.broker, runtime.clock, {
        isBreaking: true,
        traces: runtime.traces,
      }),
      onSilent: error => this.#noteSilent(error),
    };
  }

  get status(): RelayStatus {
    return {
      idleMs: this.#deps.runtime.clock.monotonic() - this.#movedAt,
      breaker: this.#breaker.state,
      sample: this.#sample,
      workerLetters: this.#workerLetters,
    };
  }

  /** Works until the signal aborts; unsent claims are given back. */
  async run(signal: AbortSignal): Promise<void> {
    const undo = this.#deps.outbox.onReady(this.#wake.hint);
    try {
      const receipts = this.#receipts === null ? [] : [this.#receipts.run];
      await this.#beside([this.#beat, this.#takeSamples, ...receipts], async () => {
        while (!signal.aborted) await this.#turn(signal);
      });
    } finally {
      undo();
    }
  }

  /**
   * Heartbeats continue until the last batch is settled, not only until the stop: rows of a relay without a lease are
   * free.
   */
  async #beside<T>(
    loops: readonly ((signal: AbortSignal) => Promise<void>)[],
    fn: () => Promise<T>,
  ): Promise<T> {
    const ended = new AbortController();
    const beside = loops.map(loop => loop(ended.signal));
    try {
      return await fn();
    } finally {
      ended.abort();
      await Promise.all(beside);
      await this.#lease.close();
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const { settings } = this.#deps;
    await this.#coolDown(signal);
    try {
      const { taken } = await this.#look(signal, Infinity);
      this.#storePace.succeeded();
      this.#shared.onProgress();
      // Busy senders do not notify for every row: if there were some, more may have come by now.
      const soonestMs = taken > 0 ? SOON_MS : !this.#owed.isEmpty ? PULSE_MS : Infinity;
      const longestMs = Math.min(soonestMs, settings.idleTimeMs);
      if (taken < settings.batchSize) await this.#idle(longestMs, signal);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      await this.#storePace.wait(error, signal);
    }
  }

  /** Moves everything that is due now; returns the number of rows. */
  async drain(signal: AbortSignal): Promise<number> {
    return await this.#beside([this.#beat], async () => {
      let total = 0;
      for (;;) {
        await this.#receipts?.look();
        const { taken, sent } = await this.#look(signal, Infinity);
        total += sent;
        this.#refuseOutage();
        if (taken === 0 || signal.aborted) return total;
      }
    });
  }

  /** Moves one batch; returns the number of rows. */
  async pass(signal: AbortSignal): Promise<number> {
    return await this.#beside([this.#beat], async () => {
      await this.#receipts?.look();
      const { sent } = await this.#look(signal, 1);
      this.#refuseOutage();
      return sent;
    });
  }

  /** A caller that drains must learn that the broker is away; the rows are kept for later. */
  #refuseOutage(): void {
    const lastOutage = this.#breaker.lastOutage ?? this.#silent;
    this.#silent = null;
    if (lastOutage === null) return;
    throw outlastError('ERR_BROKER_UNAVAILABLE', {
      message: `the broker cannot be used: ${lastOutage}`,
      hint: 'The rows are kept and no retry was spent. Check the broker and start the relay again.',
      fields: { scope: 'connection' },
    });
  }

  #noteSilent(error: string): void {
    const { clock, log } = this.#deps.runtime;
    this.#silent = error;
    if (clock.monotonic() - this.#silentLoggedAt < SILENCE_LOG_MS) return;
    this.#silentLoggedAt = clock.monotonic();
    log.warn({ error }, 'a queue does not confirm; its rows wait, others go on');
  }

  async #look(signal: AbortSignal, batches: number): Promise<Pass> {
    const { move } = this.#deps.outbox;
    if (!move) return await this.#publish(signal, batches);
    try {
      const { left, ...moved } = await this.#move(move);
      if (left === 0) return moved;
      // Rows under a rate are claimed and published, even if it is one database.
      const { taken, sent } = await this.#publish(signal, batches);
      return { taken: moved.taken + taken, sent: moved.sent + sent };
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // One row of the batch cannot be moved: moved one by one, it spends its retries and the others arrive.
      this.#deps.runtime.log.warn(
        { error },
        'a batch could not be moved; publishing it row by row',
      );
      return await this.#publish(signal, 1);
    }
  }

  async #move(move: NonNullable<OutboxStore['move']>): Promise<Pass & { readonly left: number }> {
    const { runtime, settings } = this.#deps;
    const from = runtime.clock.monotonic();
    const { rows } = await move(settings.batchSize);
    await runtime.faultPoint('relay.moved');
    const gone = rows.filter(({ answer }) => answer !== 'limited');
    for (const row of gone) this.#emitMoved(row);
    if (gone.length > 0) this.#emitMove(gone, runtime.clock.monotonic() - from);
    return { taken: gone.length, sent: gone.length, left: rows.length - gone.length };
  }

  /** Claims and publishes until a claim is not full; at most two batches are in flight, and a third is claimed. */
  async #publish(signal: AbortSignal, batches: number): Promise<Pass> {
    // The lease must be held before anything is claimed under it.
    if (!this.#lease.isSure) await this.#lease.beat();
    await this.#owed.pay();
    // Half-open: a single message shows whether the broker is back.
    const limit = this.#breaker.state === 'closed' ? this.#deps.settings.batchSize : 1;
    // Sums only: a backlog may not fit into memory.
    let [begun, taken, sent] = [0, 0, 0];
    let [before, running]: Promise<void>[] = [Promise.resolve(), Promise.resolve()];
    let ahead: Promise<Batch> | null = this.#claim(limit);
    try {
      while (ahead !== null) {
        const batch: Batch = await ahead;
        ahead = null;
        if (begun > 0 && signal.aborted) await batch.giveBack();
        if (batch.rows.length === 0 || (begun > 0 && signal.aborted)) break;
        begun++;
        taken = batch.rows.length;
        running = batch.run(signal).then(() => void (sent += batch.sent));
        running.catch(() => undefined);
        await batch.half;
        if (begun < batches && this.#mayClaimMore(batch, limit, signal)) {
          ahead = this.#claim(limit);
          ahead.catch(() => undefined);
        }
        await batch.begun;
        await before;
        before = running;
      }
      await before;
    } finally {
      await ahead?.then(batch => batch.giveBack()).catch(() => undefined);
      // Nothing may stay in flight unnoticed when the relay stops next.
      await Promise.allSettled([before, running]);
    }
    this.#breaker.judge();
    return { taken, sent };
  }

  #mayClaimMore(batch: Batch, limit: number, signal: AbortSignal): boolean {
    // A store returns fewer rows if they are large.
    const bytes = batch.rows.reduce((sum, { envelope }) => sum + bytesOfEnvelope(envelope), 0);
    const isFull = limit > 1 && (batch.rows.length === limit || bytes > BATCH_BYTES / 2);
    return isFull && !signal.aborted && this.#breaker.state === 'closed';
  }

  async #claim(limit: number): Promise<Batch> {
    const { outbox, runtime, settings } = this.#deps;
    const token = runtime.random.token();
    const { staleTimeoutMs: staleMs } = settings;
    try {
      const rows = await outbox.claim({ relay: this.#lease.name, token, limit, staleMs });
      this.#shared.onProgress();
      return new Batch(token, rows, this.#deps, this.#shared);
    } catch (error) {
      // A claim whose reply was lost holds rows unknown to any relay, now or soon.
      if (isUnavailable(error)) this.#owed.addUnanswered(token);
      throw error;
    }
  }

  #emitMoved({ answer, ...ref }: MovedRow): void {
    const { emit } = this.#deps.runtime;
    emit('task:created', ref);
    if (answer === 'conflict')
      emit('task:dead-lettered', { ...ref, where: 'relay', reason: 'ERR_DIGEST', error: null });
    else emit('task:sent', { ...ref, latencyMs: null });
  }

  #emitMove(gone: readonly MovedRow[], tookMs: number): void {
    const dead = gone.filter(({ answer }) => answer === 'conflict').length;
    const rows = gone.length;
    const counts = { rows, published: rows - dead, failed: 0, dead, deferred: 0, released: 0 };
    const { emit } = this.#deps.runtime;
    emit('relay:batch', { ...counts, again: 0, durationMs: roundMs(tookMs) });
  }

  async #idle(longestMs: number, signal: AbortSignal): Promise<void> {
    const { outbox, runtime } = this.#deps;
    const dueMs = await outbox.nextDueMs();
    const restMs = Math.min(longestMs, Math.max(dueMs ?? Infinity, 1));
    const endsAt = runtime.clock.monotonic() + restMs;
    for (;;) {
      const leftMs = endsAt - runtime.clock.monotonic();
      if (leftMs <= 0 || signal.aborted) return;
      if (await this.#wake.sleep(Math.min(leftMs, PULSE_MS), signal)) return;
      this.#shared.onProgress();
    }
  }

  /** Waits until the broker may be tried again, and reports progress meanwhile. */
  async #coolDown(signal: AbortSignal): Promise<void> {
    while (this.#breaker.state === 'open' && !signal.aborted) {
      this.#shared.onProgress();
      await sleep(this.#deps.runtime.clock, Math.min(this.#breaker.waitMs, PULSE_MS), signal);
    }
  }

  readonly #beat = async (signal: AbortSignal): Promise<void> => {
    if (!this.#deps.outbox.move) await this.#lease.keep(signal);
  };

  /**
   * Figures for probes and logs, now and then: counting is too slow for every batch, and takes at most a tenth of the
   * time.
   */
  readonly #takeSamples = async (signal: AbortSignal): Promise<void> => {
    const { reads, runtime, settings } = this.#deps;
    if (reads === null) return;
    while (!signal.aborted) {
      const from = runtime.clock.monotonic();
      try {
        this.#sample = await reads.sample(0);
        this.#workerLetters = await this.#countWorkerLetters();
        runtime.log.debug({ ...this.#sample }, 'outbox sampled');
      } catch (error) {
        runtime.log.warn({ error }, 'the outbox could not be sampled');
      }
      const tookMs = runtime.clock.monotonic() - from;
      await sleep(runtime.clock, Math.max(settings.queueSnapshotRefreshMs, tookMs * 10), signal);
    }
  };

  /** A ledger that is away must not take the figures of the outbox with it. */
  async #countWorkerLetters(): Promise<number | null> {
    const { letters, runtime } = this.#deps;
    try {
      return (await letters?.countDead()) ?? null;
    } catch (error) {
      runtime.log.warn({ error }, 'the dead letters of workers could not be counted');
      return null;
    }
  }
}

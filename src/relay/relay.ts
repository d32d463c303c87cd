import { isUnavailable, outlastError } from '../errors/error.ts';
import type { MovedRow, OutboxStore } from '../outbox/outbox-store.ts';
import type { OutboxSample } from '../outbox/outbox-reads.ts';
import { sleep } from '../runtime/clock.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import { Batch, type BatchShared } from './batch.ts';
import { Breaker, type BreakerState } from './breaker.ts';
import { RelayLease } from './lease.ts';
import { OwedClaims } from './owed-claims.ts';
import { Receipts } from './receipts.ts';
import type { RelayDeps } from './relay-deps.ts';
import { Window } from './window.ts';

const STORE_RETRY_MS = 500;
/** After a look that found something. */
const SOON_MS = 50;
/** A relay that waits says at least this often that it lives. */
const PULSE_MS = 1_000;

/** How a relay is, for probes. */
export interface RelayStatus {
  /** Since something last moved, or was found to have nothing to move. */
  readonly idleMs: number;
  readonly breaker: BreakerState;
  /** The newest figures of the outbox; null before the first. */
  readonly sample: OutboxSample | null;
}

/** What one look at the outbox came to. */
interface Pass {
  readonly taken: number;
  readonly sent: number;
}

/**
 * Moves committed tasks on. Where outbox and ledger are one database a single statement does it; otherwise
 * claim -> publish -> settle, where only rows that still carry our token are settled. The next rows are claimed while
 * those before are on their way.
 */
export class Relay {
  readonly #deps: RelayDeps;
  readonly #lease: RelayLease;
  readonly #breaker: Breaker;
  readonly #shared: BatchShared;
  readonly #wake: Wakeable;
  readonly #owed: OwedClaims;
  /** Null: no row waits for the end of its task. */
  readonly #receipts: Receipts | null;
  #movedAt: number;
  #sample: OutboxSample | null = null;

  constructor(deps: RelayDeps) {
    const { runtime, settings } = deps;
    this.#deps = deps;
    this.#lease = new RelayLease(deps.outbox, runtime);
    this.#breaker = new Breaker(runtime, settings.brokerOutageCooldownMs);
    this.#owed = new OwedClaims(deps.outbox, runtime);
    this.#wake = new Wakeable(runtime.clock);
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
    };
  }

  get status(): RelayStatus {
    return {
      idleMs: this.#deps.runtime.clock.monotonic() - this.#movedAt,
      breaker: this.#breaker.state,
      sample: this.#sample,
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

  /** Beats until the last batch is settled, not only until the stop: rows of a relay without a lease are free. */
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
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const { runtime, settings } = this.#deps;
    await this.#coolDown(signal);
    try {
      const { taken } = await this.#look(signal, Infinity);
      this.#shared.onProgress();
      // Senders in a hurry do not notify for every row: where some were, more may have come by now.
      const soonestMs = taken > 0 ? SOON_MS : !this.#owed.isEmpty ? PULSE_MS : Infinity;
      const longestMs = Math.min(soonestMs, settings.idleTimeMs);
      if (taken < settings.batchSize) await this.#idle(longestMs, signal);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      runtime.log.warn({ error }, 'the outbox cannot be reached; trying again');
      await sleep(runtime.clock, STORE_RETRY_MS, signal);
    }
  }

  /** Moves all that is due now; how many rows that was. */
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

  /** One batch; how many rows of it were moved. */
  async pass(signal: AbortSignal): Promise<number> {
    return await this.#beside([this.#beat], async () => {
      await this.#receipts?.look();
      const { sent } = await this.#look(signal, 1);
      this.#refuseOutage();
      return sent;
    });
  }

  /** Who waits for an end must hear that the broker is away; the rows are kept for later. */
  #refuseOutage(): void {
    const { lastOutage } = this.#breaker;
    if (lastOutage === null) return;
    throw outlastError('ERR_BROKER_UNAVAILABLE', {
      message: `the broker cannot be used: ${lastOutage}`,
      hint: 'The rows are kept and no retry was spent. Check the broker and start the relay again.',
      fields: { scope: 'connection' },
    });
  }

  async #look(signal: AbortSignal, batches: number): Promise<Pass> {
    const { move } = this.#deps.outbox;
    if (!move) return await this.#publish(signal, batches);
    try {
      const { left, ...moved } = await this.#move(move);
      if (left === 0) return moved;
      // Rows that must pass a rate are claimed and published, one database or not.
      const { taken, sent } = await this.#publish(signal, batches);
      return { taken: moved.taken + taken, sent: moved.sent + sent };
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // One row of the batch cannot be moved: taken one by one it spends its retries and the others arrive.
      this.#deps.runtime.log.warn(
        { error },
        'a batch could not be moved; publishing it row by row',
      );
      return await this.#publish(signal, 1);
    }
  }

  async #move(move: NonNullable<OutboxStore['move']>): Promise<Pass & { readonly left: number }> {
    const { runtime, settings } = this.#deps;
    const { rows } = await move(settings.batchSize);
    await runtime.faultPoint('relay.moved');
    const gone = rows.filter(({ answer }) => answer !== 'limited');
    for (const row of gone) this.#tellMoved(row);
    return { taken: gone.length, sent: gone.length, left: rows.length - gone.length };
  }

  /** Claims and publishes until a claim is not full; two batches are under way at most, and a third is claimed. */
  async #publish(signal: AbortSignal, batches: number): Promise<Pass> {
    // The lease must stand before anything is claimed under it.
    if (!this.#lease.isSure) await this.#lease.beat();
    await this.#owed.pay();
    // Half-open: a single message shows whether the broker is back.
    const limit = this.#breaker.state === 'closed' ? this.#deps.settings.batchSize : 1;
    // Sums only: a backlog may be longer than what fits into memory.
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
      // Nothing is on its way behind the back of whoever stops next.
      await Promise.allSettled([before, running]);
    }
    this.#breaker.judge();
    return { taken, sent };
  }

  #mayClaimMore(batch: Batch, limit: number, signal: AbortSignal): boolean {
    const isFull = batch.rows.length === limit && limit > 1;
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
      // A claim whose reply was lost holds rows that nobody knows of, now or soon.
      if (isUnavailable(error)) this.#owed.addUnanswered(token);
      throw error;
    }
  }

  #tellMoved({ answer, ...ref }: MovedRow): void {
    const { emit } = this.#deps.runtime;
    emit('task:created', ref);
    if (answer === 'conflict')
      emit('task:dead-lettered', { ...ref, where: 'relay', reason: 'ERR_DIGEST' });
    else emit('task:sent', ref);
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

  /** Waits until the broker may be tried again, alive all the while. */
  async #coolDown(signal: AbortSignal): Promise<void> {
    while (this.#breaker.state === 'open' && !signal.aborted) {
      this.#shared.onProgress();
      await sleep(this.#deps.runtime.clock, Math.min(this.#breaker.waitMs, PULSE_MS), signal);
    }
  }

  readonly #beat = async (signal: AbortSignal): Promise<void> => {
    if (!this.#deps.outbox.move) await this.#lease.keep(signal);
  };

  /** Figures for probes and logs, now and then: counting is not for every batch, and takes a tenth of the time at most. */
  readonly #takeSamples = async (signal: AbortSignal): Promise<void> => {
    const { reads, runtime, settings } = this.#deps;
    while (!signal.aborted) {
      const from = runtime.clock.monotonic();
      try {
        this.#sample = await reads.sample(0);
        runtime.log.debug({ ...this.#sample }, 'outbox sampled');
      } catch (error) {
        runtime.log.warn({ error }, 'the outbox could not be sampled');
      }
      const tookMs = runtime.clock.monotonic() - from;
      await sleep(runtime.clock, Math.max(settings.queueSnapshotRefreshMs, tookMs * 10), signal);
    }
  };
}

import { isUnavailable } from '../errors/error.ts';
import type { MovedRow, OutboxRow, OutboxStore } from '../outbox/outbox-store.ts';
import { sleep } from '../runtime/clock.ts';
import { Wakeable } from '../runtime/wakeable.ts';
import { Batch } from './batch.ts';
import type { RelayDeps } from './relay-deps.ts';

/** A relay's own lease: rows of a relay that lost it are free at once, so a killed relay costs seconds. */
const RELAY_LEASE_MS = 10_000;
const RELAY_BEAT_MS = 2_000;
const STORE_RETRY_MS = 500;

/**
 * Moves committed tasks on. Where outbox and ledger are one database a single statement does it; otherwise
 * claim -> publish -> settle, where only rows that still carry our token are settled.
 */
export class Relay {
  readonly #deps: RelayDeps;
  readonly #name: string;
  readonly #wake: Wakeable;

  constructor(deps: RelayDeps) {
    this.#deps = deps;
    this.#name = `relay:${deps.runtime.random.token()}`;
    this.#wake = new Wakeable(deps.runtime.clock);
  }

  /** Works until the signal aborts; unsent claims are given back. */
  async run(signal: AbortSignal): Promise<void> {
    const { outbox, runtime, settings } = this.#deps;
    const undo = outbox.onReady(this.#wake.hint);
    // Beats until the last batch is settled, not only until the stop: rows of a relay without a lease are free.
    const ended = new AbortController();
    const beating = this.#beat(ended.signal);
    try {
      while (!signal.aborted) {
        try {
          const moved = await this.pass(signal);
          if (moved < settings.batchSize) await this.#idle(signal);
        } catch (error) {
          if (!isUnavailable(error)) throw error;
          runtime.log.warn({ error }, 'store or broker cannot be used; trying again');
          await sleep(runtime.clock, STORE_RETRY_MS, signal);
        }
      }
    } finally {
      undo();
      ended.abort();
      await beating;
    }
  }

  /** Moves all that is due now; how many rows that was. */
  async drain(signal: AbortSignal): Promise<number> {
    let total = 0;
    for (;;) {
      const moved = await this.pass(signal);
      total += moved;
      if (moved === 0 || signal.aborted) return total;
    }
  }

  /** One batch; how many rows were taken up. */
  async pass(signal: AbortSignal): Promise<number> {
    const { move } = this.#deps.outbox;
    if (!move) return await this.#publish(signal);
    try {
      return await this.#move(move);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // One row of the batch cannot be moved: taken one by one it spends its retries and the others arrive.
      this.#deps.runtime.log.warn(
        { error },
        'a batch could not be moved; publishing it row by row',
      );
      return await this.#publish(signal);
    }
  }

  async #move(move: NonNullable<OutboxStore['move']>): Promise<number> {
    const { runtime, settings } = this.#deps;
    const { rows } = await move(settings.batchSize);
    await runtime.faultPoint('relay.moved');
    for (const row of rows) this.#tellMoved(row);
    return rows.length;
  }

  async #publish(signal: AbortSignal): Promise<number> {
    const { outbox, runtime } = this.#deps;
    // The lease must stand before anything is claimed under it.
    await outbox.beat(this.#name, RELAY_LEASE_MS);
    const token = runtime.random.token();
    const rows = await this.#claim(token);
    if (rows.length > 0) await new Batch(token, rows, this.#deps).run(signal);
    return rows.length;
  }

  /** A claim whose reply was lost holds rows that nobody knows of: they are given back by their token. */
  async #claim(token: string): Promise<readonly OutboxRow[]> {
    const { outbox, settings } = this.#deps;
    const { batchSize: limit, staleTimeoutMs: staleMs } = settings;
    try {
      return await outbox.claim({ relay: this.#name, token, limit, staleMs });
    } catch (error) {
      await outbox.release(token);
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

  async #idle(signal: AbortSignal): Promise<void> {
    const { outbox, settings } = this.#deps;
    const dueMs = await outbox.nextDueMs();
    await this.#wake.sleep(Math.min(settings.idleTimeMs, Math.max(dueMs ?? Infinity, 1)), signal);
  }

  async #beat(signal: AbortSignal): Promise<void> {
    const { outbox, runtime } = this.#deps;
    if (outbox.move) return;
    while (!signal.aborted) {
      await sleep(runtime.clock, RELAY_BEAT_MS, signal);
      const isLeaving = signal.aborted;
      const said = isLeaving ? outbox.leave(this.#name) : outbox.beat(this.#name, RELAY_LEASE_MS);
      await said.catch((error: unknown) => runtime.log.warn({ error }, 'relay beat failed'));
    }
  }
}

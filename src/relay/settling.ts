import type { PublishOutcome } from '../broker/broker.ts';
import { isUnavailable } from '../errors/error.ts';
import { letterReason, undecodable } from '../errors/letter-reason.ts';
import type { OutboxRow, PublishFailure } from '../outbox/outbox-store.ts';
import { wantsReceipt } from '../outbox/receipt-store.ts';
import { type BackoffPolicy, backoffMs } from '../runtime/backoff.ts';
import { sleep } from '../runtime/runtime.ts';
import { inContextOf } from '../telemetry/ambient.ts';
import { roundMs } from '../telemetry/logger.ts';
import type { RelayDeps, WaitingRow } from './relay-deps.ts';
import { FIRST_LOOK_MS } from './receipts.ts';

const STORE_RETRY: BackoffPolicy = { baseMs: 500, maxMs: 2_000, jitter: 'full' };
interface FailedRow {
  readonly row: OutboxRow;
  readonly error: string;
  readonly isFinal?: true | undefined;
}

/** Rows per statement. */
const MOST_ROWS = 1_000;

export interface SettlingStart {
  readonly token: string;
  /** On the monotonic clock: when the claim was answered. */
  readonly claimedAt: number;
  readonly deps: RelayDeps;
  readonly isClaimOver: () => boolean;
}

/**
 * Settles the rows of one claim, as the answers come: one statement at a time, each with everything that came in while
 * the last one ran. So a crash resends few rows, and a fast broker is not held up.
 */
export class Settling {
  readonly #token: string;
  readonly #claimedAt: number;
  readonly #deps: RelayDeps;
  readonly #isClaimOver: () => boolean;
  readonly #confirmed: OutboxRow[] = [];
  readonly #failed: FailedRow[] = [];
  readonly #deferred: OutboxRow[] = [];
  readonly #waiting: WaitingRow[] = [];
  #running: Promise<void> | null = null;
  #failure: { readonly error: unknown } | null = null;
  #sent = 0;
  #failedRows = 0;
  #dead = 0;
  #deferredRows = 0;
  #written = 0;

  constructor({ token, claimedAt, deps, isClaimOver }: SettlingStart) {
    this.#token = token;
    this.#claimedAt = claimedAt;
    this.#deps = deps;
    this.#isClaimOver = isClaimOver;
  }

  /** Rows whose publish was confirmed and settled. */
  get sent(): number {
    return this.#sent;
  }

  /** Rows that are tried again after a backoff. */
  get failed(): number {
    return this.#failedRows;
  }

  get dead(): number {
    return this.#dead;
  }

  /** Rows left for later without a retry: an outage, or a limit. */
  get deferred(): number {
    return this.#deferredRows;
  }

  /** Rows whose outcome was written, whatever it was. */
  get written(): number {
    return this.#written;
  }

  /** A write failed; `flush` throws the error. */
  get hasFailed(): boolean {
    return this.#failure !== null;
  }

  add(row: OutboxRow, outcome: PublishOutcome): void {
    switch (outcome.status) {
      case 'confirmed':
        this.#confirmed.push(row);
        break;
      case 'unavailable':
        this.#deferred.push(row);
        break;
      case 'refused':
        this.#failed.push({ row, error: outcome.error, isFinal: outcome.isFinal });
        break;
      default:
        this.#failed.push({ row, error: outcome.error });
    }
  }

  /** It is over its limit, which is not a failure: no retry is spent. */
  wait(row: OutboxRow, waitMs: number): void {
    this.#waiting.push({ row, waitMs });
  }

  /** Starts writing what there is. A failure is kept for `flush`. */
  begin(): void {
    if (this.#running !== null || this.#isEmpty) return;
    this.#running = this.#run()
      .catch((error: unknown) => void (this.#failure ??= { error }))
      .finally(() => (this.#running = null));
  }

  /** Resolves when everything is written. One failed write does not prevent the next. */
  async flush(): Promise<void> {
    while (!this.#isEmpty || this.#running !== null) {
      this.begin();
      await this.#running;
    }
    if (this.#failure !== null) throw this.#failure.error;
  }

  get #isEmpty(): boolean {
    const lists = [this.#confirmed, this.#failed, this.#deferred, this.#waiting];
    return lists.every(list => list.length === 0);
  }

  /** Deletes of published rows first and separately: no other failure may undo what the broker has confirmed. */
  async #run(): Promise<void> {
    const { runtime } = this.#deps;
    while (!this.#isEmpty) {
      const confirmed = this.#confirmed.splice(0, MOST_ROWS);
      if (confirmed.length > 0) {
        await runtime.faultPoint('relay.published-not-settled');
        await this.#settlePublished(confirmed);
        await runtime.faultPoint('relay.mid-settle');
      }
      await this.#settleFailed(this.#failed.splice(0, MOST_ROWS));
      await this.#defer(this.#deferred.splice(0, MOST_ROWS));
      await this.#deferWaiting(this.#waiting.splice(0, MOST_ROWS));
    }
  }

  /** A broker in the ledger's own database keeps a task as safely as the outbox: there is nothing more to wait for. */
  async #settlePublished(rows: readonly OutboxRow[]): Promise<void> {
    const { outbox, receipts, runtime } = this.#deps;
    const mayKeep = receipts !== undefined && outbox.move === null;
    const [kept, gone]: [string[], string[]] = [[], []];
    for (const { row, envelope } of rows)
      (mayKeep && wantsReceipt(envelope.options) ? kept : gone).push(row);
    let settled = 0;
    if (gone.length > 0)
      settled += await this.#persist(() => outbox.settlePublished(this.#token, gone));
    if (kept.length > 0)
      settled += await this.#persist(() =>
        outbox.receipts.markSent(this.#token, kept, FIRST_LOOK_MS),
      );
    this.#sent += settled;
    this.#written += rows.length;
    if (settled < rows.length) this.#emitLost(rows.length - settled);
    const sinceMs = runtime.clock.monotonic() - this.#claimedAt;
    for (const { envelope, dueMs } of rows) {
      const { id, name, queue } = envelope;
      const sent = { id, name, queue, latencyMs: roundMs(dueMs + sinceMs) };
      inContextOf(envelope, () => runtime.emit('task:sent', sent));
    }
  }

  async #settleFailed(failed: readonly FailedRow[]): Promise<void> {
    if (failed.length === 0) return;
    const { outbox, runtime, settings } = this.#deps;
    const failures = failed.map(one => this.#failureOf(one));
    try {
      const settled = await this.#persist(() => outbox.settleFailed(this.#token, failures));
      this.#written += failures.length;
      if (settled < failures.length) this.#emitLost(failures.length - settled);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // If given back at once, they would be published again and again: they wait as after a failure.
      runtime.log.error({ error }, 'failed rows could not be written down');
      const rows = failed.map(({ row }) => row.row);
      await this.#persist(() => outbox.defer(this.#token, rows, settings.backoffTimeMs));
      return;
    }
    for (const [index, { row }] of failed.entries())
      this.#emitFailed(row, failures[index] as PublishFailure);
  }

  /**
   * An outage is not the row's fault: no retry is spent. Delays are spread, or all rows would come back at the same
   * moment.
   */
  async #defer(rows: readonly OutboxRow[]): Promise<void> {
    if (rows.length === 0) return;
    const { outbox, runtime, settings } = this.#deps;
    const delayMs = settings.brokerOutageCooldownMs * (1 + runtime.random.next() * 0.1);
    const numbers = rows.map(({ row }) => row);
    await this.#persist(() => outbox.defer(this.#token, numbers, delayMs));
    this.#written += rows.length;
    this.#deferredRows += rows.length;
  }

  async #deferWaiting(waiting: readonly WaitingRow[]): Promise<void> {
    if (waiting.length === 0) return;
    const numbers = waiting.map(({ row }) => row.row);
    const waits = waiting.map(({ waitMs }) => waitMs);
    await this.#persist(() => this.#deps.outbox.defer(this.#token, numbers, waits));
    this.#written += waiting.length;
    this.#deferredRows += waiting.length;
  }

  /** A store that is away for a moment must not cause a second publish: the claim is ours until it ends. */
  async #persist<T>(step: () => Promise<T>): Promise<T> {
    const { runtime } = this.#deps;
    for (let tries = 0; ; tries++) {
      try {
        return await step();
      } catch (error) {
        if (!isUnavailable(error) || this.#isClaimOver()) throw error;
        if (tries === 0)
          runtime.log.warn({ error }, 'the outbox cannot be reached; settling again');
        await sleep(runtime.clock, backoffMs(STORE_RETRY, tries, 0.5 + runtime.random.next() / 2));
      }
    }
  }

  #failureOf({ row, error, isFinal }: FailedRow): PublishFailure {
    const { runtime, settings } = this.#deps;
    if (isFinal === true) return { row: row.row, error: undecodable(error), delayMs: null };
    if (row.retries + 1 >= settings.maxRetries) return { row: row.row, error, delayMs: null };
    const policy = {
      baseMs: settings.backoffTimeMs,
      maxMs: settings.maxBackoffMs,
      jitter: settings.jitter,
    };
    return {
      row: row.row,
      error,
      delayMs: backoffMs(policy, row.retries, runtime.random.next()),
    };
  }

  #emitFailed(row: OutboxRow, failure: PublishFailure): void {
    inContextOf(row.envelope, () => this.#emitFailedHere(row, failure));
  }

  #emitFailedHere({ envelope, retries }: OutboxRow, { error, delayMs }: PublishFailure): void {
    const { emit } = this.#deps.runtime;
    const { id, name, queue } = envelope;
    const ref = { id, name, queue, where: 'relay' } as const;
    emit('task:failed', { ...ref, attempt: retries + 1, durationMs: null, error });
    if (delayMs !== null) return void (this.#failedRows += 1);
    this.#dead += 1;
    const last = { type: 'publish', message: error };
    emit('task:dead-lettered', { ...ref, reason: letterReason(error), error: last });
  }

  #emitLost(rows: number): void {
    this.#deps.runtime.emit('relay:claim-lost', { token: this.#token, rows });
  }
}

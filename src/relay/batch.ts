import { inContextOf } from '../telemetry/ambient.ts';
import type { PublishOutcome } from '../broker/broker.ts';
import type { DestinationGuard } from '../broker/destination-guard.ts';
import { ownManner } from '../ledger/destinations.ts';
import type { OutboxRow } from '../outbox/outbox-store.ts';
import { type AdmittedRows, type RelayDeps, admitRows } from './relay-deps.ts';
import type { Breaker, Window } from './breaker.ts';
import type { RelayLease } from './claims.ts';
import { Settling } from './settling.ts';
import { withPath } from '../task/path.ts';
import { roundMs } from '../telemetry/logger.ts';

/** What the batches of one relay share. */
export interface BatchShared {
  readonly window: Window;
  readonly breaker: Breaker;
  readonly guard: DestinationGuard;
  readonly lease: RelayLease;
  /** Frees the rows of a claim, now or as soon as the store can be reached. */
  readonly giveBack: (token: string) => Promise<void>;
  /** Called on every progress: a relay that makes progress is alive. */
  readonly onProgress: () => void;
  /** Called for rows whose destination does not confirm, while others do. */
  readonly onSilent: (error: string) => void;
}

/** Messages passed to the broker in one call, and answered together. */
const LARGEST_SLICE = 100;

/** One claimed batch on its way through claim -> publish -> settle. */
export class Batch {
  readonly rows: readonly OutboxRow[];
  /** Resolves when half of the rows are in flight: time to claim the next ones. Never rejects. */
  readonly half: Promise<void>;
  /** Resolves when no further send of this batch will start, so that the next one may begin. Never rejects. */
  readonly begun: Promise<void>;
  readonly #token: string;
  readonly #deps: RelayDeps;
  readonly #shared: BatchShared;
  readonly #settling: Settling;
  readonly #suspects: OutboxRow[] = [];
  /** They keep what they took from their rates. */
  readonly #published = new Set<OutboxRow>();
  #onHalf: () => void = () => undefined;
  #onBegun: () => void = () => undefined;
  readonly #claimedAt: number;
  readonly #claimedMs: number;
  #claimEndsAt: number;
  #lossesSeen: number;
  #stopAt: number | undefined;

  constructor(token: string, rows: readonly OutboxRow[], deps: RelayDeps, shared: BatchShared) {
    const { clock } = deps.runtime;
    this.#token = token;
    this.rows = rows;
    this.#deps = deps;
    this.#shared = shared;
    this.#claimEndsAt = clock.monotonic() + deps.settings.staleTimeoutMs;
    this.#lossesSeen = shared.lease.losses;
    this.#claimedAt = clock.monotonic();
    this.#claimedMs = clock.now();
    this.#settling = new Settling({
      token,
      claimedAt: this.#claimedAt,
      deps,
      isClaimOver: () => this.#isLastChanceOver(),
    });
    this.half = new Promise(resolve => (this.#onHalf = resolve));
    this.begun = new Promise(resolve => (this.#onBegun = resolve));
  }

  /** Rows that were published, confirmed and settled. */
  get sent(): number {
    return this.#settling.sent;
  }

  /** Unsent rows are free at once; settled ones no longer carry the token. */
  async giveBack(): Promise<void> {
    if (this.#settling.written < this.rows.length) await this.#shared.giveBack(this.#token);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { runtime, settings } = this.#deps;
    const onStop = (): void => {
      this.#stopAt ??= runtime.clock.monotonic() + settings.shutdownTimeoutMs;
    };
    signal.addEventListener('abort', onStop);
    if (signal.aborted) onStop();
    try {
      for (const { isFirstClaim, envelope } of this.rows) {
        const { id, name, queue } = envelope;
        const created = { id, name, queue };
        if (isFirstClaim) inContextOf(envelope, () => runtime.emit('task:created', created));
      }
      await runtime.faultPoint('relay.claimed');
      await this.#sendAll();
      await this.#isolate(this.#suspects.splice(0));
      await this.#settling.flush();
    } finally {
      signal.removeEventListener('abort', onStop);
      this.#onHalf();
      this.#onBegun();
      await this.giveBack();
      this.#report();
    }
  }

  #report(): void {
    const { clock, emit } = this.#deps.runtime;
    const { sent: published, failed, dead, deferred, written } = this.#settling;
    const rows = this.rows.length;
    const released = rows - written;
    const again = this.rows.filter(({ isFirstClaim }) => !isFirstClaim).length;
    const durationMs = roundMs(clock.monotonic() - this.#claimedAt);
    const counts = { rows, published, failed, dead, deferred, released, again };
    emit('relay:batch', { ...counts, durationMs });
  }

  /** Starts sends as the window allows; resolves when all of them were answered. */
  async #sendAll(): Promise<void> {
    const { window } = this.#shared;
    const size = Math.min(LARGEST_SLICE, Math.ceil(window.size / 10));
    const sends: Promise<void>[] = [];
    const { rows, refund } = await this.#admit();
    for (let at = 0; at < rows.length; at += size) {
      const slice = rows.slice(at, at + size);
      if (!(await this.#mayStart(slice.length, rows.length - at))) break;
      sends.push(this.#send(slice).finally(() => window.give(slice.length)));
      if (at + size >= rows.length / 2) this.#onHalf();
    }
    this.#onHalf();
    this.#onBegun();
    try {
      await Promise.all(sends);
    } finally {
      const unpublished = rows.filter(row => !this.#published.has(row));
      // If this fails, the rate recovers with time.
      if (unpublished.length > 0) await refund(unpublished).catch(() => undefined);
    }
  }

  /** All rows at once: those that wait line up behind each other, and cost one statement. */
  async #admit(): Promise<AdmittedRows> {
    const admitted = await admitRows(this.rows, this.#deps.admission ?? null);
    for (const { row, waitMs } of admitted.waiting) this.#settling.wait(row, waitMs);
    if (admitted.waiting.length > 0) {
      this.#shared.onProgress();
      this.#settling.begin();
    }
    return admitted;
  }

  /**
   * Takes slots in the window, if a send may start at all. After an outage that is known only when all sends were
   * answered.
   */
  async #mayStart(slots: number, left: number): Promise<boolean> {
    const { window, breaker } = this.#shared;
    for (;;) {
      if (breaker.isTroubled) await window.alone(async () => breaker.judge());
      await window.take(slots);
      if (breaker.isTroubled) {
        window.give(slots);
        continue;
      }
      const mayStart = await this.#isAllowed(left).catch((error: unknown) => {
        window.give(slots);
        throw error;
      });
      if (!mayStart) window.give(slots);
      return mayStart;
    }
  }

  async #isAllowed(left: number): Promise<boolean> {
    if (this.#shared.breaker.state === 'open' || this.#isTimeToStop()) return false;
    // What cannot be settled would be sent again.
    if (this.#settling.hasFailed) return false;
    return await this.#isStillOurs(left);
  }

  /** After a stop the batch may continue for a while; then no new send starts. */
  #isTimeToStop(): boolean {
    return this.#deps.runtime.clock.monotonic() >= (this.#stopAt ?? Infinity);
  }

  /** Nothing of this batch can be settled any more: the claim is lost, or the process must exit. */
  #isLastChanceOver(): boolean {
    return this.#deps.runtime.clock.monotonic() >= this.#claimEndsAt || this.#isTimeToStop();
  }

  /** No send starts that the claim cannot cover, nor while others may consider this relay dead. */
  async #isStillOurs(left: number): Promise<boolean> {
    const { outbox, runtime, settings } = this.#deps;
    const { lease } = this.#shared;
    const now = runtime.clock.monotonic();
    const marginMs = Math.max(settings.sendTimeoutMs, settings.staleTimeoutMs / 2);
    const isKept = lease.isSure && lease.losses === this.#lossesSeen;
    if (isKept && now < this.#claimEndsAt - marginMs) return true;
    await lease.beat();
    this.#lossesSeen = lease.losses;
    const held = await outbox.renewClaim(this.#token, settings.staleTimeoutMs);
    this.#claimEndsAt = now + settings.staleTimeoutMs;
    if (held >= left) return true;
    runtime.emit('relay:claim-lost', { token: this.#token, rows: left - held });
    return false;
  }

  async #send(rows: readonly OutboxRow[]): Promise<void> {
    await this.#deps.runtime.faultPoint('relay.before-publish');
    const outcomes = await this.#publish(rows);
    for (const [index, row] of rows.entries()) {
      const outcome = outcomes[index] as PublishOutcome;
      if (outcome.status === 'suspect') this.#suspects.push(row);
      else this.#settle(row, outcome);
      if (outcome.status === 'confirmed' || outcome.status === 'suspect') this.#published.add(row);
    }
    this.#shared.onProgress();
    this.#settling.begin();
  }

  /**
   * One message of these closed the channel for all. Sending each half alone shows which half has it, and so on: many
   * innocent rows arrive at once, and the faulty one is found in a few steps and spends its own retries.
   */
  async #isolate(rows: readonly OutboxRow[]): Promise<void> {
    const middle = Math.ceil(rows.length / 2);
    for (const half of [rows.slice(0, middle), rows.slice(middle)]) {
      if (half.length === 0) continue;
      if (!(await this.#mayStart(this.#shared.window.size, half.length))) return;
      const outcomes = await this.#publish(half).finally(() =>
        this.#shared.window.give(this.#shared.window.size),
      );
      const suspects = half.filter((_, index) => outcomes[index]?.status === 'suspect');
      for (const [index, row] of half.entries()) {
        const outcome = outcomes[index] as PublishOutcome;
        if (outcome.status !== 'suspect') this.#settle(row, outcome);
        else if (half.length === 1) this.#settle(row, { status: 'refused', error: outcome.error });
      }
      this.#shared.onProgress();
      this.#settling.begin();
      if (half.length > 1) await this.#isolate(suspects);
    }
  }

  /** A send that takes too long has an unknown outcome, like one whose connection broke: it may be sent twice. */
  async #publish(rows: readonly OutboxRow[]): Promise<readonly PublishOutcome[]> {
    const { runtime, settings } = this.#deps;
    const messages = rows.map(({ envelope }) =>
      settings.lifeLine ? withPath(envelope, this.#claimedMs, runtime.clock.now()) : envelope,
    );
    const manner = ownManner(messages);
    const sending = this.#shared.guard.publish(messages, settings.sendTimeoutMs, manner);
    await runtime.faultPoint('relay.written-not-confirmed');
    return await sending;
  }

  #settle(row: OutboxRow, outcome: PublishOutcome): void {
    const { breaker, onSilent } = this.#shared;
    if (outcome.status === 'unavailable' && outcome.retryAfterMs !== undefined) {
      // The broker answers, but one of its queues does not: that is no reason to stop sending to the others.
      onSilent(outcome.error);
      return this.#settling.wait(row, outcome.retryAfterMs);
    }
    if (outcome.status === 'confirmed') breaker.succeeded();
    if (outcome.status === 'unavailable') breaker.failed(outcome.error);
    this.#settling.add(row, outcome);
  }
}

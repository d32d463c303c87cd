import type { PublishOutcome } from '../broker/broker.ts';
import { outlastError } from '../errors/error.ts';
import type { OutboxRow, PublishFailure } from '../outbox/outbox-store.ts';
import { backoffMs } from '../runtime/backoff.ts';
import type { RelayDeps } from './relay-deps.ts';

/** Rows published and settled together. Small, so that a crash sends few again. */
const CHUNK = 20;

/** One claimed batch on its way through claim -> publish -> settle. */
export class Batch {
  readonly #token: string;
  readonly #rows: readonly OutboxRow[];
  readonly #deps: RelayDeps;
  #claimEndsAt: number;
  #stopAt: number | undefined;

  constructor(token: string, rows: readonly OutboxRow[], deps: RelayDeps) {
    this.#token = token;
    this.#rows = rows;
    this.#deps = deps;
    this.#claimEndsAt = deps.runtime.clock.monotonic() + deps.settings.staleTimeoutMs;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { outbox, runtime } = this.#deps;
    for (const row of this.#rows) {
      const { id, name, queue } = row.envelope;
      if (row.isFirstClaim) runtime.emit('task:created', { id, name, queue });
    }
    await runtime.faultPoint('relay.claimed');
    try {
      for (let at = 0; at < this.#rows.length; at += CHUNK) {
        if (this.#isTimeToStop(signal) || !(await this.#isStillOurs(this.#rows.length - at))) break;
        await this.#publish(this.#rows.slice(at, at + CHUNK));
      }
    } finally {
      // What was not sent is free at once; what was settled no longer carries the token.
      await outbox.release(this.#token);
    }
  }

  /** After a stop the batch may go on for a while; then no new send starts. */
  #isTimeToStop(signal: AbortSignal): boolean {
    if (!signal.aborted) return false;
    const now = this.#deps.runtime.clock.monotonic();
    this.#stopAt ??= now + this.#deps.settings.shutdownTimeoutMs;
    return now >= this.#stopAt;
  }

  /** No send starts that the claim cannot cover. */
  async #isStillOurs(left: number): Promise<boolean> {
    const { outbox, runtime, settings } = this.#deps;
    const now = runtime.clock.monotonic();
    if (now < this.#claimEndsAt - Math.max(settings.sendTimeoutMs, settings.staleTimeoutMs / 2))
      return true;
    const held = await outbox.renewClaim(this.#token, settings.staleTimeoutMs);
    this.#claimEndsAt = now + settings.staleTimeoutMs;
    if (held >= left) return true;
    runtime.emit('relay:claim-lost', { token: this.#token, rows: left - held });
    return false;
  }

  async #publish(rows: readonly OutboxRow[]): Promise<void> {
    const { broker, runtime, settings } = this.#deps;
    await runtime.faultPoint('relay.before-publish');
    const outcomes = await this.#withinTime(
      broker.publish(rows.map(row => row.envelope)),
      settings.sendTimeoutMs,
    );
    await runtime.faultPoint('relay.published-not-settled');
    await this.#settle(rows, outcomes);
  }

  /** A send that takes too long has an unknown outcome: the rows are given back and may be sent twice. */
  #withinTime<T>(sending: Promise<T>, ms: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = outlastError('ERR_BROKER_UNAVAILABLE', {
        message: `the broker did not confirm within ${ms} ms`,
        hint: 'Check the broker; the rows are sent again.',
        fields: { scope: 'connection' },
      });
      const cancel = this.#deps.runtime.clock.timer(ms, () => reject(late));
      sending.then(resolve, reject).finally(cancel);
    });
  }

  /** Deletes of published rows first and alone: no failure beside them may undo what the broker has confirmed. */
  async #settle(rows: readonly OutboxRow[], outcomes: readonly PublishOutcome[]): Promise<void> {
    const { outbox, runtime } = this.#deps;
    const sent = rows.filter((_, index) => outcomes[index]?.status === 'confirmed');
    const settled = await outbox.settlePublished(
      this.#token,
      sent.map(row => row.row),
    );
    if (settled < sent.length)
      runtime.emit('relay:claim-lost', { token: this.#token, rows: sent.length - settled });
    await runtime.faultPoint('relay.mid-settle');
    for (const { envelope } of sent)
      runtime.emit('task:sent', { id: envelope.id, name: envelope.name, queue: envelope.queue });
    const failures = rows.flatMap((row, index) => this.#failureOf(row, outcomes[index]));
    if (failures.length > 0) await outbox.settleFailed(this.#token, failures);
  }

  #failureOf(row: OutboxRow, outcome: PublishOutcome | undefined): readonly PublishFailure[] {
    if (outcome?.status !== 'refused') return [];
    const { runtime, settings } = this.#deps;
    const { id, name, queue } = row.envelope;
    const isDead = row.retries + 1 >= settings.maxRetries;
    const policy = {
      baseMs: settings.backoffTimeMs,
      maxMs: settings.maxBackoffMs,
      jitter: settings.jitter,
    };
    const delayMs = isDead ? null : backoffMs(policy, row.retries, runtime.random.next());
    runtime.emit('task:failed', { id, name, queue, where: 'relay', error: outcome.error });
    if (isDead)
      runtime.emit('task:dead-lettered', {
        id,
        name,
        queue,
        where: 'relay',
        reason: 'ERR_ATTEMPTS_SPENT',
      });
    return [{ row: row.row, error: outcome.error, delayMs }];
  }
}

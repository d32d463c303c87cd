import type { Death, DeathKind } from './death.ts';
import type { CondemnTarget, Ledger, ReapReply } from './ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';

export interface ReaperSettings {
  /** The longest lease a worker may have: after trouble, no process is declared dead for this long. */
  readonly leaseMs: number;
  readonly beatMs: number;
  /** Tasks brought back in one statement. */
  readonly chunk: number;
}

/** A store that stays slow is accepted as it is: after this many leases its answers count again. */
const MOST_SLOW_LEASES = 3;

/**
 * Declares processes dead and brings back their tasks. Any number may run: each step is a compare-and-set.
 *
 *   watchful ──poll failed or was slow, store's clock jumped──► in grace
 *      ▲                                                           │
 *      └───one whole lease later; three, while it stays slow───────┘
 *
 * In its grace period a reaper condemns no process, because the store was away and not the workers; it still brings back
 * the tasks of incarnations that others closed. It starts in grace. It gets used to a store that answers late: leases are
 * judged by the store's own clock, and workers near it renew theirs in time.
 */
export class Reaper {
  readonly #ledger: Pick<Ledger, 'condemn' | 'reap'>;
  readonly #runtime: Runtime;
  readonly #settings: ReaperSettings;
  #graceUntil: number;
  /** Bounds of how far the store's clock is ahead of ours: it was read while a call was on its way. */
  #ahead: { readonly leastMs: number; readonly mostMs: number } | undefined;
  /** How long calls may take besides a heartbeat. Zero, unless the store has stayed slow. */
  #usualMs = 0;
  /** Calls that take longer than that, since when. */
  #slow: { readonly since: number; readonly worstMs: number } | null = null;
  #slowAt = -Infinity;

  constructor(
    ledger: Pick<Ledger, 'condemn' | 'reap'>,
    runtime: Runtime,
    settings: ReaperSettings,
  ) {
    this.#ledger = ledger;
    this.#runtime = runtime;
    this.#settings = settings;
    this.#graceUntil = runtime.clock.monotonic() + settings.leaseMs;
  }

  /** One pass: brings back tasks of closed incarnations, then closes overdue ones and brings their tasks back too. */
  async look(): Promise<number> {
    const { clock } = this.#runtime;
    try {
      const returned = await this.#bringBack();
      this.#getUsedToIt();
      if (clock.monotonic() < this.#graceUntil) return returned;
      return returned + (await this.condemn({ kind: 'expired' }));
    } catch (error) {
      this.#startGrace('failed');
      throw error;
    }
  }

  /** Closes incarnations and brings back what they ran. A supervisor calls it for a child it saw exit. */
  async condemn(target: CondemnTarget): Promise<number> {
    const { workers, deaths } = await this.#ledger.condemn(target);
    if (workers.length === 0) return 0;
    for (const [at, worker] of workers.entries())
      this.#runtime.emit('worker:lost', { worker, ...howOf(deaths[at] ?? null) });
    await this.#runtime.faultPoint('reaper.closed-not-requeued');
    return await this.#bringBack();
  }

  async #bringBack(): Promise<number> {
    let returned = 0;
    for (;;) {
      const sentAt = this.#runtime.clock.monotonic();
      const reply = await this.#ledger.reap(this.#settings.chunk);
      this.#watchCall(sentAt, reply.storeMs);
      this.#emitReply(reply);
      returned += reply.returned.length + reply.buried.length;
      if (!reply.more) return returned;
      await this.#runtime.faultPoint('reaper.mid-chunk');
    }
  }

  /**
   * The store's clock must run at the rate of ours; after a jump, leases that look expired are not. It was read at some
   * moment between the sending of the call and its answer.
   */
  #watchCall(sentAt: number, storeMs: number): void {
    const now = this.#runtime.clock.monotonic();
    const { beatMs, leaseMs } = this.#settings;
    const before = this.#ahead;
    const ahead = { leastMs: storeMs - now, mostMs: storeMs - sentAt };
    this.#ahead = ahead;
    const jumpMs = before
      ? Math.max(ahead.leastMs - before.mostMs, before.leastMs - ahead.mostMs)
      : 0;
    if (jumpMs > beatMs) this.#startGrace('clock');
    const tookMs = now - sentAt;
    if (tookMs > beatMs) this.#slowAt = now;
    else if (now - this.#slowAt > leaseMs) [this.#usualMs, this.#slow] = [0, null];
    if (tookMs <= beatMs + this.#usualMs) return;
    const { since, worstMs } = this.#slow ?? { since: now, worstMs: 0 };
    this.#slow = { since, worstMs: Math.max(worstMs, tookMs) };
    this.#startGrace('slow');
  }

  /** A store that has been slow for long enough is no trouble any more; one that gets even slower is. */
  #getUsedToIt(): void {
    const { clock, log } = this.#runtime;
    if (this.#slow === null) return;
    const { since, worstMs } = this.#slow;
    if (clock.monotonic() - since < MOST_SLOW_LEASES * this.#settings.leaseMs) return;
    [this.#usualMs, this.#slow] = [worstMs, null];
    this.#graceUntil = -Infinity;
    log.warn({ tookMs: worstMs }, 'the store stays slow; workers are declared dead all the same');
  }

  #startGrace(why: 'slow' | 'failed' | 'clock'): void {
    const now = this.#runtime.clock.monotonic();
    const wasInGrace = now < this.#graceUntil;
    this.#graceUntil = now + this.#settings.leaseMs;
    // Slowness before an outage or a jump proves nothing about the time after it.
    if (why !== 'slow') this.#slow = null;
    if (wasInGrace) return;
    this.#runtime.log.warn({ why }, 'the store was away; no worker is declared dead for one lease');
  }

  #emitReply(reply: ReapReply): void {
    const { emit } = this.#runtime;
    for (const { id, name, queue, crashes, worker, death } of reply.returned) {
      const task = { id, name, queue, resurrections: crashes, worker };
      emit('task:resurrected', { ...task, ...howOf(death) });
    }
    for (const { id, name, queue, death } of reply.buried) {
      emit('task:dead-lettered', {
        id,
        name,
        queue,
        where: 'worker',
        reason: 'ERR_RESURRECTIONS_SPENT',
        error: death === null ? null : { type: death.kind, message: death.message },
      });
    }
  }
}

function howOf(death: Death | null): { readonly how: DeathKind | null; readonly why: string } {
  return { how: death?.kind ?? null, why: death?.message ?? '' };
}

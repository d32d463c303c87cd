import type { CondemnTarget, Ledger, ReapReply } from './ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';

export interface ReaperSettings {
  /** The longest lease a worker may have: how long to trust nobody's death after trouble. */
  readonly leaseMs: number;
  readonly beatMs: number;
  /** Tasks brought back in one statement. */
  readonly chunk: number;
}

/**
 * Judges death and brings back what the dead were running. Any number may run: each step is a compare-and-set.
 *
 *   watchful ──poll failed or was slow, store's clock jumped──► patient
 *      ▲                                                           │
 *      └──────────────────one whole lease later────────────────────┘
 *
 * A patient reaper closes nobody, because the store was away and not the workers; what others closed it still
 * brings back. It starts patient.
 */
export class Reaper {
  readonly #ledger: Pick<Ledger, 'condemn' | 'reap'>;
  readonly #runtime: Runtime;
  readonly #settings: ReaperSettings;
  #patientUntil: number;
  #seen: { readonly storeMs: number; readonly monotonic: number } | undefined;

  constructor(
    ledger: Pick<Ledger, 'condemn' | 'reap'>,
    runtime: Runtime,
    settings: ReaperSettings,
  ) {
    this.#ledger = ledger;
    this.#runtime = runtime;
    this.#settings = settings;
    this.#patientUntil = runtime.clock.monotonic() + settings.leaseMs;
  }

  /** One look: brings back what is closed, then closes what is overdue and brings that back too. */
  async look(): Promise<number> {
    const { clock } = this.#runtime;
    try {
      const sentAt = clock.monotonic();
      const returned = await this.#bringBack();
      if (clock.monotonic() - sentAt > this.#settings.beatMs) this.#bePatient('slow');
      if (clock.monotonic() < this.#patientUntil) return returned;
      return returned + (await this.condemn({ kind: 'expired' }));
    } catch (error) {
      this.#bePatient('failed');
      throw error;
    }
  }

  /** Closes incarnations and brings back what they ran. A supervisor calls it for a child it saw exit. */
  async condemn(target: CondemnTarget): Promise<number> {
    const { workers } = await this.#ledger.condemn(target);
    if (workers.length === 0) return 0;
    for (const worker of workers) this.#runtime.emit('worker:lost', { worker });
    await this.#runtime.faultPoint('reaper.closed-not-requeued');
    return await this.#bringBack();
  }

  async #bringBack(): Promise<number> {
    let returned = 0;
    for (;;) {
      const reply = await this.#ledger.reap(this.#settings.chunk);
      this.#watchClock(reply.storeMs);
      this.#tell(reply);
      returned += reply.returned.length + reply.buried.length;
      if (!reply.more) return returned;
      await this.#runtime.faultPoint('reaper.mid-chunk');
    }
  }

  /** The store's clock must run as ours does; when it jumped, leases that look over are not. */
  #watchClock(storeMs: number): void {
    const monotonic = this.#runtime.clock.monotonic();
    const before = this.#seen;
    this.#seen = { storeMs, monotonic };
    if (!before) return;
    const drift = Math.abs(storeMs - before.storeMs - (monotonic - before.monotonic));
    if (drift > this.#settings.beatMs) this.#bePatient('clock');
  }

  #bePatient(why: 'slow' | 'failed' | 'clock'): void {
    this.#patientUntil = this.#runtime.clock.monotonic() + this.#settings.leaseMs;
    this.#runtime.log.warn({ why }, 'the store was away; no worker is declared dead for one lease');
  }

  #tell(reply: ReapReply): void {
    const { emit } = this.#runtime;
    for (const { crashes, ...ref } of reply.returned)
      emit('task:resurrected', { ...ref, resurrections: crashes });
    for (const { id, name, queue } of reply.buried) {
      emit('task:dead-lettered', {
        id,
        name,
        queue,
        where: 'worker',
        reason: 'ERR_RESURRECTIONS_SPENT',
      });
    }
  }
}

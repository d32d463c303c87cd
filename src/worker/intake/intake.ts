import type { Delivery } from '../../broker/broker.ts';
import { LedgerTrust } from './ledger-trust.ts';
import type { Prefetch } from '../flow/prefetch.ts';
import type { WorkerDeps } from '../worker-deps.ts';

type IntakeDeps = Pick<WorkerDeps, 'ledger' | 'runtime'> & {
  readonly settings: Pick<WorkerDeps['settings'], 'queues'>;
};

/**
 * The queues that a worker takes from: its own, except those that are paused. A broker that pushes continues until the worker
 * leaves the queue, so a paused queue is left at once.
 */
export class Intake {
  readonly #prefetch: Prefetch;
  readonly #trust: LedgerTrust;
  readonly #hint: () => void;
  #queues: Readonly<Record<string, number>>;
  #open: Readonly<Record<string, number>>;
  #paused: ReadonlySet<string> = new Set();
  #unsubscribe: (() => void) | null = null;

  constructor(deps: IntakeDeps, prefetch: Prefetch, hint: () => void) {
    const { ledger, runtime, settings } = deps;
    this.#prefetch = prefetch;
    this.#trust = new LedgerTrust(ledger, runtime);
    this.#queues = settings.queues;
    this.#open = settings.queues;
    this.#hint = hint;
  }

  /** Messages are taken: the ledger is not known to refuse them. */
  get isTaking(): boolean {
    return !this.#trust.isDoubted;
  }

  /** All of its queues, with their weights. */
  get queues(): Readonly<Record<string, number>> {
    return this.#queues;
  }

  /** The queues that may be taken from now. */
  get open(): Readonly<Record<string, number>> {
    return this.#open;
  }

  get isShut(): boolean {
    return Object.keys(this.#open).length === 0;
  }

  /** Takes from these queues from now on; tasks taken from other queues are finished. */
  takeFrom(queues: Readonly<Record<string, number>>): void {
    this.#queues = queues;
    this.#resubscribe();
  }

  pause(queues: readonly string[]): void {
    const { size } = this.#paused;
    if (queues.length === size && queues.every(queue => this.#paused.has(queue))) return;
    this.#paused = new Set(queues);
    // Prefetched messages may belong to a queue that is paused now.
    this.#giveBack();
    this.#resubscribe();
  }

  /** Up to `limit` messages; one to try with, or none, while it is unknown whether the ledger takes them. */
  take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    return this.#trust.isTrusted ? this.#take(queues, limit) : this.#try(queues, limit);
  }

  #take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    this.#unsubscribe ??= this.#prefetch.onReady(queues, this.#hint);
    return this.#prefetch.take(queues, limit);
  }

  async #try(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    await this.#prefetch.giveBackLate();
    const most = await this.#trust.allows(limit);
    if (most === 0) return [];
    if (this.#trust.isTrusted) return await this.#take(queues, most);
    try {
      const taken = await this.#prefetch.take(queues, most);
      if (taken.length > 0) return taken;
      if (this.#prefetch.awayMs === null) this.#trust.took();
      else this.#trust.unproven();
      return taken;
    } catch (error) {
      this.#trust.unproven();
      throw error;
    }
  }

  /** The broker pushes messages to this process. */
  get isPushedTo(): boolean {
    return this.#prefetch.isPushedTo && this.#unsubscribe !== null;
  }

  /** How long the worker may sleep before it must look again; null: no limit. */
  get maxSleepMs(): number | null {
    const { maxSleepMs } = this.#trust;
    const { awayMs } = this.#prefetch;
    return awayMs === null ? maxSleepMs : Math.min(maxSleepMs ?? Infinity, awayMs);
  }

  /** The ledger took the messages it was given. */
  took(): void {
    this.#trust.took();
  }

  /** The ledger was not asked, or its reply went to an incarnation that is gone. */
  unproven(): void {
    this.#trust.unproven();
  }

  /**
   * The ledger did not take these. They are kept and not given back: quorum queues count every return and drop a message that
   * came back too often, and other workers would be refused as well. No more messages are pushed until it takes one.
   */
  keep(deliveries: readonly Delivery[], error: unknown): void {
    this.#trust.refused(error);
    this.#prefetch.keep(deliveries);
    this.rest();
  }

  /** Nothing can be begun here for a while: other workers should get the messages of the queues. */
  rest(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = null;
  }

  /** Leaves the queues and gives back messages at hand: other workers should get them while nothing can be begun here. */
  leave(): void {
    this.rest();
    this.#giveBack();
  }

  #giveBack(): void {
    void this.#prefetch.giveBack().catch(() => undefined);
  }

  #resubscribe(): void {
    const open = Object.entries(this.#queues).filter(([queue]) => !this.#paused.has(queue));
    this.#open = Object.fromEntries(open);
    if (this.#unsubscribe) {
      // Subscribe to the new ones first: a queue that stays must always have a consumer.
      const leave = this.#unsubscribe;
      this.#unsubscribe = this.#prefetch.onReady(Object.keys(this.#open), this.#hint);
      leave();
    }
    this.#hint();
  }
}

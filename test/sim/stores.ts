import { createHash, type Hash } from 'node:crypto';
import { ledgerBroker, MemoryBroker } from '../../src/adapters/memory/memory-broker.ts';
import { MemoryEffects } from '../../src/adapters/memory/memory-effects.ts';
import { MemoryLedger } from '../../src/adapters/memory/memory-ledger.ts';
import { MemoryOutboxStore } from '../../src/adapters/memory/memory-outbox-store.ts';
import type { Broker } from '../../src/broker/broker.ts';
import type { Checker } from './checker.ts';
import type { Mutant } from './mutants.ts';
import type { SimPlan } from './plan.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Midnight of some day: wall clocks need a date. */
export const DAY_ZERO_MS: number = Date.UTC(2026, 0, 1);

/** The stores of one run. Every transition goes to the checker and into a hash that stands for the whole history. */
export class Stores {
  readonly ledger: MemoryLedger;
  readonly outbox: MemoryOutboxStore;
  readonly server: MemoryBroker;
  readonly effects: MemoryEffects;
  /** Null where messages go through `server`. */
  readonly ownBroker: Broker | null;
  readonly #hash: Hash = createHash('sha256');
  #jumpMs = 0;

  constructor(plan: SimPlan, time: VirtualTime, checker: Checker, mutant: Mutant | null) {
    const clock = { now: () => DAY_ZERO_MS + time.nowMs + this.#jumpMs };
    const isOneDatabase = plan.topology === 'one-database';
    this.ledger = new MemoryLedger({
      clock,
      guards: mutant?.ledger ?? {},
      journal: entry => {
        this.#hash.update(`${entry.atMs} ${entry.step} ${entry.id} ${entry.epoch} ${entry.run} ${entry.worker} ${entry.state}\n`);
        checker.onLedger(entry);
      },
    });
    this.outbox = new MemoryOutboxStore({
      clock,
      guards: mutant?.outbox ?? {},
      journal: entry => {
        this.#hash.update(`${entry.step} ${entry.id} ${entry.token}\n`);
        checker.onSettle(entry);
      },
      ...(isOneDatabase ? { ledger: this.ledger } : {}),
    });
    const unroutable = new Set(plan.tasks.filter(task => task.kind === 'unroutable').map(task => task.id));
    this.server = new MemoryBroker({
      refuse: message => (unroutable.has(message.id) ? 'no such queue' : null),
      holdsUntilAck: mutant?.holdsUntilAck ?? true,
    });
    this.ownBroker = isOneDatabase ? ledgerBroker(this.ledger) : null;
    this.effects = new MemoryEffects(this.ledger, {
      guards: mutant?.effects ?? {},
      journal: entry => {
        this.#hash.update(`effect ${entry.id} ${entry.step} ${entry.epoch}\n`);
        checker.onEffect(entry);
      },
    });
  }

  /** The store's clock is set; the workers' monotonic clocks are not. */
  jumpClock(ms: number): void {
    this.#jumpMs += ms;
  }

  /** The same for two runs that did the same. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }
}

import { composeReads } from '../admin/compose-reads.ts';
import type { SqlDatabase } from '../adapters/sql/sql-database.ts';
import type { Stores } from '../context/stores.ts';
import { outlastError } from '../errors/error.ts';
import type { Clock } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { MemoryAdmissionStore } from './memory/memory-admission-store.ts';
import { ledgerBroker } from './memory/memory-broker.ts';
import { MemoryCheckpointStore } from './memory/memory-checkpoint-store.ts';
import { MemoryControlStore } from './memory/memory-control-store.ts';
import { MemoryIdempotencyStore } from './memory/memory-idempotency-store.ts';
import { MemoryLedgerReads } from './memory/memory-ledger-reads.ts';
import { MemoryLedger } from './memory/memory-ledger.ts';
import { MemoryOutboxReads } from './memory/memory-outbox-reads.ts';
import { MemoryOutboxStore } from './memory/memory-outbox-store.ts';
import { MemoryOutboxWriter } from './memory/memory-outbox-writer.ts';
import { MemoryScheduleStore } from './memory/memory-schedule-store.ts';
import { MemoryResultStore } from './memory/memory-result-store.ts';
import type { RowExtras } from './memory/memory-outbox-guards.ts';
import type { KitProcess } from './kit-process.ts';

/**
 * A call to a store that can fail: `transaction` is a COMMIT, `push` the broker's confirm, `relay` the step that moves
 * committed tasks on, `begin` and `commit` those of a worker.
 */
export type KitStep = 'transaction' | 'push' | 'relay' | 'begin' | 'commit';

export interface Fault {
  readonly error: Error;
  /** The step had its effect before the error. */
  readonly isLate: boolean;
}

/** Tasks that a kit has sent into the user's own database, as those see them who go on with them. */
export interface KitRows {
  /** A worker waits for an answer of the database: the clock must not run away. */
  readonly isAsked: boolean;
  /** Finds out which sends were committed. */
  look(): Promise<void>;
  /** Moves committed rows on, into the outbox in memory, which a relay empties. */
  take(): Promise<void>;
  /** Whether a send is among what was sent cannot be said before its transaction is over. */
  refuseUnseen(): void;
  /** From now on transactions of handlers end when this process dies. */
  serve(process: KitProcess): void;
  /** Until transactions of a dead process are rolled back. */
  idle(longestMs: number): Promise<void>;
}

/** All stores in RAM, with faults that a test has asked for, and a list of what was sent. */
export class KitStores {
  readonly ledger: MemoryLedger;
  readonly outbox: MemoryOutboxStore;
  readonly writer: MemoryOutboxWriter;
  readonly control: MemoryControlStore;
  readonly schedules: MemoryScheduleStore;
  readonly stores: Stores;
  /** Every task that was committed or pushed, once, in order. */
  readonly sent: Map<string, Envelope> = new Map();
  /** The outbox that is in the user's own database; null: in memory, too. */
  database: KitRows | null = null;
  /** Grows with everything that happens. */
  activity = 0;
  readonly #faults = new Map<KitStep, Fault[]>();

  constructor(clock: Clock) {
    const ledger = new MemoryLedger({ clock, journal: () => void (this.activity += 1) });
    const outbox = new MemoryOutboxStore({ clock, ledger });
    this.#watch(ledger, outbox);
    this.ledger = ledger;
    this.outbox = outbox;
    this.writer = new MemoryOutboxWriter(outbox);
    this.control = new MemoryControlStore(clock);
    this.schedules = new MemoryScheduleStore({ clock, writer: this.writer });
    const broker = ledgerBroker(ledger);
    const [outboxReads, ledgerReads] = [
      new MemoryOutboxReads(outbox, ledger),
      new MemoryLedgerReads(ledger),
    ];
    this.stores = {
      db: NO_DATABASE,
      outbox,
      broker: {
        ...broker,
        publish: async messages => {
          this.#note(messages);
          return await broker.publish(messages);
        },
      },
      ledger,
      control: this.control,
      checkpoints: new MemoryCheckpointStore(clock),
      idempotency: new MemoryIdempotencyStore(clock),
      results: new MemoryResultStore(ledger, outbox),
      admission: new MemoryAdmissionStore({ clock, ledger }),
      outboxReads,
      ledgerReads,
      fences: NO_FENCES,
      schedules: this.schedules.through(),
      reads: composeReads(outboxReads, ledgerReads, this.control),
      evacuation: { list: async () => [], end: async () => 'absent' },
      tiers: null,
    };
  }

  /** The next such step fails, before its effect or after it. */
  arm(step: KitStep, fault: Fault): void {
    this.#faults.set(step, [...(this.#faults.get(step) ?? []), fault]);
  }

  takeFault(step: KitStep): Fault | undefined {
    return this.#faults.get(step)?.shift();
  }

  async step<T>(step: KitStep, run: () => Promise<T>): Promise<T> {
    const fault = this.takeFault(step);
    if (fault && !fault.isLate) throw fault.error;
    const answer = await run();
    if (fault) throw fault.error;
    return answer;
  }

  #watch(ledger: MemoryLedger, outbox: MemoryOutboxStore): void {
    const [begin, commit] = [ledger.begin.bind(ledger), ledger.commit.bind(ledger)];
    ledger.begin = request => this.step('begin', () => begin(request));
    ledger.commit = items => this.step('commit', () => commit(items));
    const { move } = outbox;
    const watched = (limit: number) => this.step('relay', async () => await move?.(limit));
    Object.defineProperty(outbox, 'move', { value: watched });
    outbox.onReady(() => this.#note([...outbox.rows.values()].map(({ envelope }) => envelope)));
  }

  /** It was found in the user's database, and stays there until it is relayed. */
  note(envelope: Envelope): void {
    this.#note([envelope]);
  }

  /** A committed row of the user's database goes on here. */
  receive(envelope: Envelope, extras: RowExtras): void {
    this.outbox.insert(envelope, extras);
  }

  #note(envelopes: readonly Envelope[]): void {
    this.activity += 1;
    for (const envelope of envelopes)
      if (!this.sent.has(envelope.id)) this.sent.set(envelope.id, envelope);
  }
}

const refuse = (): Promise<never> =>
  Promise.reject(
    outlastError('ERR_CONFIG_TIER', {
      message: 'everything of a test kit is in memory: there is no SQL in it',
      hint: 'Give `createTestKit` a `tx` that stands in for your transactions.',
      fields: { option: 'tx' },
    }),
  );

const NO_DATABASE = { query: refuse, transaction: refuse } as unknown as SqlDatabase;

const NO_FENCES: Stores['fences'] = {
  due: async () => [],
  later: async () => undefined,
  over: async () => undefined,
  forget: async () => undefined,
  prune: async () => 0,
  forgetKey: async () => false,
};

/** The answer that a test has taken away, or the failure that it asked for. */
export function faultError(message: string): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message,
    hint: 'A test has asked for it.',
    fields: {},
  });
}

import { createHash, type Hash } from 'node:crypto';
import { MemoryAdmissionStore } from '../../src/testing/memory/memory-admission-store.ts';
import { ledgerBroker, MemoryBroker } from '../../src/testing/memory/memory-broker.ts';
import { MemoryCheckpointStore } from '../../src/testing/memory/memory-checkpoint-store.ts';
import { MemoryEffects } from '../../src/testing/memory/memory-effects.ts';
import { MemoryIdempotencyStore } from '../../src/testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import { MemoryOutboxStore } from '../../src/testing/memory/memory-outbox-store.ts';
import { MemoryOutboxWriter } from '../../src/testing/memory/memory-outbox-writer.ts';
import type { TaskRecord } from '../../src/testing/memory/memory-record.ts';
import { MemoryScheduleStore } from '../../src/testing/memory/memory-schedule-store.ts';
import type { Broker } from '../../src/broker/broker.ts';
import type { BeginReply, BeginRequest, Ledger } from '../../src/ledger/ledger.ts';
import type { Checker } from './checker.ts';
import { Crowd } from './crowd.ts';
import type { Faults } from './faults.ts';
import { Guilt } from './guilt.ts';
import { LinkGate } from './link-gate.ts';
import type { Mutant } from './mutants.ts';
import type { MemoryTransaction } from '../../src/testing/memory/memory-transaction.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import type { SimPlan } from './plan.ts';
import { SeededRandom } from './seeded-random.ts';
import { SlotBook } from './slot-book.ts';
import { DAY_ZERO_MS } from './timetable.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';

/** Called with every line of the history, for debugging. */
export type Trace = (atMs: number, line: string) => void;

export interface StoreWatch {
  readonly time: VirtualTime;
  readonly checker: Checker;
  readonly faults: Faults;
  readonly trace: Trace;
}

/** The stores of one run. Every transition goes to the checker and into a hash that stands for the whole history. */
export class Stores {
  readonly ledger: MemoryLedger;
  readonly outbox: MemoryOutboxStore;
  readonly server: MemoryBroker;
  readonly effects: MemoryEffects;
  readonly checkpoints: MemoryCheckpointStore;
  readonly keys: MemoryIdempotencyStore;
  readonly admission: MemoryAdmissionStore;
  readonly crowd: Crowd;
  readonly links: LinkGate;
  readonly guilt: Guilt;
  readonly schedules: MemoryScheduleStore;
  readonly slots: SlotBook;
  /** Null where messages go through `server`. */
  readonly ownBroker: Broker | null;
  /** Of senders whose tasks go through the outbox though the ledger is beside it: they have an ordering key, or a rate. */
  readonly #random: SeededRandom;
  readonly #hash: Hash = createHash('sha256');
  readonly #time: VirtualTime;
  readonly #trace: Trace;
  #jumpMs = 0;
  #losesNextBegin = false;

  constructor(plan: SimPlan, watch: StoreWatch, mutant: Mutant | null) {
    const { time, checker, faults } = watch;
    this.#time = time;
    this.#random = new SeededRandom(plan.seed, 'straight');
    this.#trace = watch.trace;
    const clock = { now: () => DAY_ZERO_MS + time.nowMs + this.#jumpMs };
    const isOneDatabase = plan.topology === 'one-database';
    this.checkpoints = new MemoryCheckpointStore(clock);
    this.keys = new MemoryIdempotencyStore(clock);
    this.ledger = new MemoryLedger({
      clock,
      guards: mutant?.ledger ?? {},
      journal: entry => {
        this.#write(
          `${entry.step} ${entry.id} ${entry.epoch} ${entry.run} ${entry.worker} ${entry.state}`,
        );
        checker.onLedger(entry);
      },
    });
    this.admission = new MemoryAdmissionStore({
      clock,
      ledger: this.ledger,
      ...(mutant?.isPlaceOver ? { isOver: mutant.isPlaceOver } : {}),
    });
    this.crowd = new Crowd(this.ledger, checker);
    this.outbox = new MemoryOutboxStore({
      clock,
      guards: mutant?.outbox ?? {},
      journal: entry => {
        this.#write(`settle-${entry.step} ${entry.id} ${entry.token}`);
        checker.onSettle(entry);
      },
      ...(isOneDatabase ? { ledger: this.ledger } : {}),
    });
    this.links = new LinkGate(plan, faults);
    this.guilt = new Guilt(plan, this.ledger, faults);
    const unroutable = new Set(
      plan.tasks.filter(task => task.kind === 'unroutable').map(task => task.id),
    );
    this.server = new MemoryBroker({
      refuse: message =>
        unroutable.has(message.id) || this.links.refuses(message) ? 'no such queue' : null,
      holdsUntilAck: mutant?.holdsUntilAck ?? true,
    });
    this.ownBroker = isOneDatabase ? ledgerBroker(this.ledger) : null;
    this.effects = new MemoryEffects(this.ledger, {
      guards: mutant?.effects ?? {},
      journal: entry => {
        this.#write(`effect ${entry.id} ${entry.step} ${entry.epoch}`);
        checker.onEffect(entry);
      },
    });
    const canClockJump = plan.rates.clockJumpEveryMs > 0;
    const isOver = (id: string): boolean => this.#isOver(id);
    this.slots = new SlotBook({ clock, checker, canClockJump, isOver });
    this.schedules = this.#makeSchedules(clock, mutant?.schedules ?? {});
  }

  #makeSchedules(
    clock: { now(): number },
    guards: NonNullable<Mutant['schedules']>,
  ): MemoryScheduleStore {
    const writer = new MemoryOutboxWriter(this.outbox, this.ownBroker ? this.ledger : null);
    return new MemoryScheduleStore({
      clock,
      writer: {
        write: async (tx, tasks) => {
          tx.write(() => {
            for (const task of tasks) this.slots.onTask(task);
          });
          return await writer.write(tx, tasks);
        },
      },
      guards,
      journal: change => {
        const { name, to, tasks } = change;
        const ids = tasks.map(({ id }) => id).join(' ');
        this.#write(`schedule ${name} ${to?.nextSlotMs ?? 'none'} ${ids}`);
        this.slots.onChange(change);
      },
    });
  }

  #isOver(id: string): boolean {
    const state = this.ledger.state.records.get(id)?.state;
    const isOpen = state === 'waiting' || state === 'running';
    return !isOpen && ![...this.outbox.rows.values()].some(({ envelope }) => envelope.id === id);
  }

  /** A standby that did not get the next `begin` takes over right after it. */
  failOverAfterBegin(): void {
    this.#losesNextBegin = true;
  }

  readonly bury: Ledger['bury'] = items => this.guilt.bury(items);

  /** Of a server that may lose what it has just answered: its records are as before, and it shows that it is another one. */
  async begin(request: BeginRequest): Promise<BeginReply> {
    this.guilt.check(request.messages);
    const { state } = this.ledger;
    const isLost = this.#losesNextBegin;
    const before = new Map<string, TaskRecord>();
    if (isLost)
      for (const [id, record] of state.records)
        before.set(id, { ...record, history: [...record.history] });
    const reply = await this.ledger.begin(request);
    if (!isLost || reply.status !== 'open' || reply.begun.length === 0) return reply;
    this.#losesNextBegin = false;
    state.generation += 1;
    for (const { id } of reply.begun) {
      const record = before.get(id);
      if (record === undefined) state.records.delete(id);
      else state.records.set(id, record);
    }
    this.#write(`failover without ${reply.begun.map(({ id }) => id).join(' ')}`);
    return reply;
  }

  /** A `send` inside of a transaction. */
  send(tx: MemoryTransaction, envelope: Envelope): void {
    if (this.ownBroker === null || this.#random.chance(0.3)) this.outbox.write(tx, [envelope]);
    else tx.write(() => this.ledger.send(envelope));
  }

  /** The store's clock is set; the workers' monotonic clocks are not. */
  jumpClock(ms: number): void {
    this.slots.onClock();
    this.#jumpMs += ms;
  }

  #write(line: string): void {
    this.#hash.update(`${this.#time.nowMs} ${line}\n`);
    this.#trace(this.#time.nowMs, line);
  }

  /** The same for two runs that did the same. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }
}

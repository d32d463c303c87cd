import { LimitBook } from '../../src/admission/limits.ts';
import { Reservations } from '../../src/admission/reservations.ts';
import { Gate } from '../../src/worker/run/admit.ts';
import { LIMITS } from './crowd.ts';
import { Reaper } from '../../src/ledger/reaper.ts';
import { Resurrector } from '../../src/recovery/resurrector.ts';
import type { RelayDeps } from '../../src/relay/relay-deps.ts';
import { Relay } from '../../src/relay/relay.ts';
import type { KeyDeps } from '../../src/worker/run/claim-key.ts';
import { LoopHeartbeat } from '../../src/worker/lease/heartbeat.ts';
import { Worker } from '../../src/worker/worker.ts';
import { isUnavailable } from '../../src/errors/error.ts';
import { sleep } from '../../src/runtime/runtime.ts';
import type { FaultKind } from './faults.ts';
import { KEYRING, LATE_KEYRING } from './forgery.ts';
import { makeHandlers } from './handlers.ts';
import { makeMachine, type Host, type Machine } from './host.ts';
import { remoteKeys, remoteReceipts } from './ports.ts';
import { makeScheduler } from './schedules.ts';
import { SeededRandom } from './seeded-random.ts';
import { QUEUES } from './task-plan.ts';
import type { Truth } from './truth.ts';

const ROLES = ['relay', 'worker', 'resurrector', 'supervisor', 'scheduler'] as const;
export type Role = (typeof ROLES)[number];

/** A position in the fleet. A process that dies in it is replaced, as by an orchestrator. */
interface Slot {
  readonly role: Role;
  readonly index: number;
  generation: number;
  machine: Machine;
  stop: AbortController;
}

/** The longest drain before the process is killed. */
const DRAIN_PATIENCE_MS = 15_000;

/** All long-lived processes of a run: starts them, hurts them, replaces them. */
/** Statistics are for operators; the simulator does not read them. */
const NO_FIGURES: RelayDeps['reads'] = {
  sample: async () => ({
    pending: 0,
    due: 0,
    scheduled: 0,
    backoff: 0,
    deferred: 0,
    claimed: 0,
    sent: 0,
    unsupported: 0,
    deadLetters: 0,
    oldestPendingMs: null,
    queues: [],
    topFailing: [],
  }),
};

export class Fleet {
  readonly #host: Host;
  readonly #truth: Truth;
  readonly #random: SeededRandom;
  readonly #slots: Slot[] = [];

  constructor(host: Host, truth: Truth) {
    this.#host = host;
    this.#truth = truth;
    this.#random = new SeededRandom(host.plan.seed, 'fleet');
  }

  start(): void {
    const { relays, workers, resurrectors, schedulers, isSupervised } = this.#host.plan;
    const sizes: Record<Role, number> = {
      relay: relays,
      worker: workers,
      resurrector: resurrectors,
      supervisor: isSupervised ? 1 : 0,
      scheduler: schedulers,
    };
    for (const role of ROLES) {
      for (let index = 1; index <= sizes[role]; index++)
        this.#slots.push(this.#launch(role, index, 1));
    }
  }

  /** A running process; workers are hit as often as all others together. */
  pick(): Slot | undefined {
    const running = this.#slots.filter(slot => slot.machine.process.isRunning);
    const workers = running.filter(slot => slot.role === 'worker');
    const pool = this.#random.chance(0.5) && workers.length > 0 ? workers : running;
    return pool.length === 0 ? undefined : this.#random.pick(pool);
  }

  kill(slot: Slot): void {
    this.#count('kill', slot);
    slot.machine.process.end();
  }

  pause(slot: Slot): void {
    this.#count('pause', slot);
    const where = slot.role === 'relay' ? 'relay.claimed' : 'anywhere';
    slot.machine.process.pause(this.#host.faults.pauseMs(where));
  }

  drain(slot: Slot): void {
    this.#count('drain', slot);
    const { process } = slot.machine;
    process.enter(() => slot.stop.abort());
    this.#host.time.after(DRAIN_PATIENCE_MS, () => process.end());
  }

  cutBroker(slot: Slot): void {
    this.#count('broker-cut', slot);
    slot.machine.link?.cut();
  }

  /** The broker restarts: every connection is gone. */
  cutAll(): void {
    for (const slot of this.#slots) slot.machine.link?.cut();
  }

  /** Wakes all sleeping processes. */
  wake(): void {
    for (const slot of this.#slots) slot.machine.process.resume();
  }

  #count(kind: FaultKind, slot: Slot): void {
    const { faults, time, trace } = this.#host;
    faults.count(kind);
    trace(time.nowMs, `${slot.machine.process.name}: ${kind}`);
  }

  #launch(role: Role, index: number, generation: number): Slot {
    const machine = makeMachine(this.#host, `${role}${index}.${generation}`);
    const slot: Slot = { role, index, generation, machine, stop: new AbortController() };
    const { process } = machine;
    process.onEnd(() => this.#onEnd(slot));
    this.#run(slot).then(
      () => process.end(),
      (error: unknown) => {
        const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
        this.#host.checker.report('broke', `${process.name}: ${what}`);
        process.end();
      },
    );
    return slot;
  }

  #onEnd(slot: Slot): void {
    const { time, faults } = this.#host;
    const { name } = slot.machine.process;
    // A lost host has no supervisor to notice it: then only the lease detects it.
    if (slot.role === 'worker' && this.#random.chance(0.7))
      time.after(this.#random.int(5, 60), () => this.#tellSupervisor(name));
    const restartMs = faults.isActive ? this.#random.int(100, 4_000) : 50;
    time.after(restartMs, () => {
      const next = this.#launch(slot.role, slot.index, slot.generation + 1);
      this.#slots[this.#slots.indexOf(slot)] = next;
    });
  }

  #tellSupervisor(process: string): void {
    const supervisor = this.#slots.find(slot => slot.role === 'supervisor')?.machine;
    supervisor?.process.enter(
      () => void condemnProcess(supervisor, this.#reaperSettings(), process),
    );
  }

  #run(slot: Slot): Promise<void> {
    const { machine, stop } = slot;
    switch (slot.role) {
      case 'relay':
        return this.#makeRelay(machine).run(stop.signal);
      case 'worker':
        return this.#makeWorker(machine, slot.index === 1).run(stop.signal);
      case 'resurrector':
        return this.#makeResurrector(machine).run(stop.signal);
      case 'supervisor':
        return new Promise(resolve => stop.signal.addEventListener('abort', () => resolve()));
      case 'scheduler':
        return makeScheduler(this.#host, machine).run(stop.signal);
    }
  }

  #makeRelay({ outbox, broker, runtime, call }: Machine): Relay {
    const { plan, stores, mutant } = this.#host;
    const { batchSize, idleMs, staleMs, sendTimeoutMs, window, receiptMs, dedupMs } = plan;
    const sources = remoteReceipts(stores, call('ledger'));
    const receipts = {
      ...sources,
      ledger: mutant?.wrapStates?.(sources.ledger) ?? sources.ledger,
      timeoutMs: receiptMs,
      dedupMs,
    };
    const backoff = {
      backoffTimeMs: 1_000,
      maxBackoffMs: 4_000,
      jitter: 'tenth',
      maxRetries: 3,
      shutdownTimeoutMs: 2_000,
      brokerOutageCooldownMs: 2_000,
      queueSnapshotRefreshMs: 60_000,
    } as const;
    const settings = {
      batchSize,
      idleTimeMs: idleMs,
      staleTimeoutMs: staleMs,
      sendTimeoutMs,
      publishConcurrency: window,
      ...backoff,
    };
    return new Relay({ outbox, reads: NO_FIGURES, broker, receipts, runtime, settings });
  }

  /** The first one is of an older version: it has fewer handlers than the others. */
  #makeWorker(machine: Machine, isOld: boolean): Worker {
    const { plan, stores } = this.#host;
    const { ledger, broker, runtime, process, random } = machine;
    const { destinations } = stores.links;
    const { concurrency, ackOn, leaseMs, beatMs, idleMs, dedupMs } = plan;
    const handlers = makeHandlers(machine, this.#truth, stores, isOld);
    const reservations = new Reservations({ store: machine.admission, ledger, runtime });
    const gate = new Gate({ reservations, book: new LimitBook(LIMITS), handlers, runtime });
    return new Worker({
      ledger,
      broker,
      runtime,
      heartbeat: new LoopHeartbeat(ledger, runtime, beatMs),
      keys: this.#keys(machine),
      handlers,
      gate,
      ...(destinations ? { destinations } : {}),
      keyring: this.#host.mutant?.verifiesLate ? LATE_KEYRING : KEYRING,
      // Everything is too large for the ledger: the longer way has the gaps.
      largeCheckpoints: { store: stores.checkpoints, maxBytes: 1_000, inlineBytes: 5 },
      settings: {
        queues: Object.fromEntries(QUEUES.map((queue, place) => [queue, place + 1])),
        concurrency,
        ackOn,
        leaseMs,
        idleTimeMs: idleMs,
        shutdownTimeoutMs: random.int(0, 4_000),
        dedupWindowMs: dedupMs,
        resultTtlMs: dedupMs,
        process: process.name,
        host: 'host',
        pid: 1,
      },
    });
  }

  #makeResurrector(machine: Machine): Resurrector {
    const { ledger, broker, outbox, admission, runtime } = machine;
    const keys = this.#keys(machine);
    const settings = {
      ...this.#reaperSettings(),
      intervalMs: this.#host.plan.lookEveryMs,
      unknownTaskTimeoutMs: 900_000,
      afterDelayMs: 5_000,
      deadLetterAge: null,
      keyring: KEYRING,
    };
    const { destinations } = this.#host.stores.links;
    return new Resurrector({
      ledger,
      broker,
      outbox,
      keys,
      admission,
      ...(destinations ? { destinations } : {}),
      runtime,
      settings,
    });
  }

  #keys(machine: Machine): KeyDeps {
    const { stores, mutant } = this.#host;
    const { store, reads } = remoteKeys(stores, machine.call('ledger'));
    return { store: mutant?.wrapKeys?.(store) ?? store, reads };
  }

  #reaperSettings(): { leaseMs: number; beatMs: number; chunk: number } {
    const { leaseMs, beatMs } = this.#host.plan;
    return { leaseMs, beatMs, chunk: 2 };
  }
}

/** What a supervisor does about a child it saw exit. If the store does not answer, the lease will. */
async function condemnProcess(
  machine: Machine,
  settings: ConstructorParameters<typeof Reaper>[2],
  process: string,
): Promise<void> {
  const reaper = new Reaper(machine.ledger, machine.runtime, settings);
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      await reaper.condemn({ kind: 'process', process });
      return;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      await sleep(machine.process.clock, 300);
    }
  }
}

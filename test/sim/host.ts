import type { Broker } from '../../src/broker/broker.ts';
import type { AdmissionStore } from '../../src/admission/admission-store.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { FaultPointName, Runtime } from '../../src/runtime/runtime.ts';
import { noEvents } from '../../src/telemetry/events.ts';
import { type Logger, silentLogger } from '../../src/telemetry/logger.ts';
import type { Checker } from './checker.ts';
import type { Faults, Service } from './faults.ts';
import type { Mutant } from './mutants.ts';
import type { SimPlan } from './plan.ts';
import { BrokerLink, remoteAdmission, remoteLedger, remoteOutbox } from './ports.ts';
import { type Call, callsTo } from './remote.ts';
import { SeededRandom } from './seeded-random.ts';
import { SimProcess } from './sim-process.ts';
import type { Stores, Trace } from './stores.ts';
import { DAY_ZERO_MS } from './timetable.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';

/** What all processes of a run share without knowing it. */
export interface Host {
  readonly plan: SimPlan;
  readonly time: VirtualTime;
  readonly faults: Faults;
  readonly checker: Checker;
  readonly stores: Stores;
  readonly mutant: Mutant | null;
  readonly trace: Trace;
}

/** A process with everything it may touch: its runtime, and the stores over the network. */
export interface Machine {
  readonly process: SimProcess;
  readonly runtime: Runtime;
  readonly random: SeededRandom;
  readonly ledger: Ledger;
  readonly admission: AdmissionStore;
  readonly outbox: OutboxStore;
  readonly broker: Broker;
  /** Null where the broker is the database. */
  readonly link: BrokerLink | null;
  readonly call: (service: Service) => Call;
}

/** The log line of a resurrector about refused tasks; without a refused task it is a finding. */
const GIVEN_UP = 'a follow-up is given up';
const BROKER_HEARTBEAT_MS = 20_000;

/** A run that ends unexpectedly, or a service that gives up, is a bug whatever the tasks do. */
function watchfulLogger({ checker, plan }: Host, name: string): Logger {
  const logger: Logger = {
    ...silentLogger,
    error: (fields, message) => {
      if (message === GIVEN_UP && plan.linkTrouble !== 'none') return;
      checker.report('broke', `${name}: ${message} ${describe(fields)}`);
    },
    child: () => logger,
  };
  return logger;
}

function describe(fields: object): string {
  const { error } = fields as { readonly error?: unknown };
  return error instanceof Error ? (error.stack ?? error.message) : '';
}

/** Suspends the caller as a killed or paused process suspends all its code. */
function reachPoint(
  host: Host,
  process: SimProcess,
  name: FaultPointName,
): Promise<void> | undefined {
  const verdict = host.faults.atPoint(name, process);
  if (verdict === 'go-on') return undefined;
  host.trace(host.time.nowMs, `${process.name} at ${name}: ${verdict}`);
  if (verdict === 'kill') process.end();
  else process.pause(verdict);
  return new Promise(resolve => process.enter(resolve));
}

export function makeMachine(host: Host, name: string): Machine {
  const { plan, time, stores, mutant } = host;
  const random = new SeededRandom(plan.seed, name);
  // Wall clocks differ by minutes: no safety may depend on them.
  const process = new SimProcess(name, time, DAY_ZERO_MS + random.int(-120_000, 120_000));
  const call = (service: Service, onTrouble?: () => void): Call =>
    callsTo(service, process, host, onTrouble);
  const runtime: Runtime = {
    clock: process.clock,
    random,
    faultPoint: point => reachPoint(host, process, point),
    log: watchfulLogger(host, name),
    emit: noEvents,
  };
  const link =
    stores.ownBroker === null
      ? new BrokerLink(stores.server, onTrouble => call('broker', onTrouble))
      : null;
  if (link !== null) watchLink(host, process, link);
  const subscribe = hintsOf(host, process);
  const begin: Ledger['begin'] = request => stores.begin(request);
  const served = { ledger: stores.ledger, begin, bury: stores.bury };
  const ledger = remoteLedger(served, call('ledger'), subscribe);
  const outbox = remoteOutbox(stores.outbox, call('outbox'), subscribe);
  return {
    process,
    runtime,
    random,
    ledger: mutant?.wrapLedger?.(ledger) ?? ledger,
    admission: remoteAdmission(stores.admission, call('ledger')),
    outbox: mutant?.wrapOutbox?.(outbox, ledger) ?? outbox,
    broker: link ?? remoteOwnBroker(stores.ownBroker, call('broker')),
    link,
    call,
  };
}

function remoteOwnBroker(broker: Broker | null, call: Call): Broker {
  if (broker === null) throw new Error('there is a separate broker');
  return {
    publish: messages => call(() => broker.publish(messages)),
    take: async () => [],
    ack: async () => undefined,
    giveBack: async () => undefined,
    onReady: () => () => undefined,
    close: async () => undefined,
  };
}

/** A dead process's connection ends at once, a silent one's when the broker misses its heartbeats. */
function watchLink(host: Host, process: SimProcess, link: BrokerLink): void {
  const { time } = host;
  process.onEnd(() => time.after(5, () => void link.close()));
  let silentSinceMs: number | null = null;
  const look = (): void => {
    if (!process.isAlive) return;
    silentSinceMs = process.isRunning ? null : (silentSinceMs ?? time.nowMs);
    if (silentSinceMs !== null && time.nowMs - silentSinceMs >= BROKER_HEARTBEAT_MS) link.cut();
    time.after(BROKER_HEARTBEAT_MS / 2, look);
  };
  time.after(BROKER_HEARTBEAT_MS / 2, look);
}

/** Hints take a moment, may be lost, and do not reach dead processes. */
function hintsOf(host: Host, process: SimProcess) {
  const { plan, time, faults } = host;
  return (subscribe: (hint: () => void) => () => void) =>
    (hint: () => void): (() => void) => {
      if (!plan.hasHints) return () => undefined;
      let isPending = false;
      const undo = subscribe(() => {
        if (isPending || faults.losesHint()) return;
        isPending = true;
        time.after(3, () => {
          isPending = false;
          process.enter(hint);
        });
      });
      process.onEnd(undo);
      return undo;
    };
}

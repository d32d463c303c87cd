import { hostname } from 'node:os';
import { resolveConfig, type ResolvedConfig } from '../config/config.ts';
import type { OutboxTarget } from '../config/database-url.ts';
import type { RelayOptions } from '../config/relay-options.ts';
import type { ResurrectorOptions } from '../config/resurrector-options.ts';
import type { WorkerOptions } from '../config/worker-options.ts';
import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import { Places } from '../admission/places.ts';
import { Receipts, type ReceiptSources } from '../relay/receipts.ts';
import { Relay } from '../relay/relay.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { ChordParts } from '../recovery/chord-parts.ts';
import { Resurrector, type ResurrectorSettings } from '../recovery/resurrector.ts';
import { systemRandom } from '../runtime/random.ts';
import { startService, type Service } from '../runtime/service.ts';
import type { Handler } from '../worker/handler.ts';
import { Gate } from '../worker/gate.ts';
import { LoopHeart, type Heart } from '../worker/heart.ts';
import type { RoomPool } from '../worker/room-pool.ts';
import { Worker } from '../worker/worker.ts';
import type { WorkerSettings, WorkerStatus } from '../worker/worker-deps.ts';
import { checkpointStoreOf } from './checkpoint-store-of.ts';
import { cleanCheckpoints } from './clean-checkpoints.ts';
import { preflight } from './check-redis.ts';
import { cleanOutboxes } from './clean-outboxes.ts';
import { embeddedDefaults } from './embedded-defaults.ts';
import { handlerMap } from './handler-map.ts';
import { withProbes, type Health, type ProbeOptions } from './health.ts';
import type { Internals } from './internals.ts';
import { joinFleet } from './join-fleet.ts';
import { chordQueueOf } from './messaging.ts';
import { INTERNALS, type Outlast } from './outlast.ts';
import { redactOf } from './redact-of.ts';
import { withHealth } from './relay-health.ts';
import { findHandlerSource, openRooms, withRooms } from './rooms.ts';
import { shareEmbedded } from './share-embedded.ts';
import { openOutboxApart, type Stores } from './stores.ts';
import { ThreadHeart } from './thread-heart.ts';
import { healthOfWorker } from './worker-health.ts';

export interface StartOptions {
  /** Stops the service when it aborts. */
  readonly signal?: AbortSignal;
}

export type AnyOutlast = Pick<Outlast<never>, typeof INTERNALS>;

/** Runs a relay in this process. */
export async function startRelay(
  outlast: AnyOutlast,
  options: StartOptions & RelayOptions = {},
): Promise<Service> {
  const { signal, ...relay } = options;
  const internals = outlast[INTERNALS];
  const config = resolveConfig(internals.file, process.env, { relay });
  const { runtime, outboxTarget } = internals;
  return await startOn({ internals, config }, signal, stores =>
    makeRelay({
      stores,
      outboxTarget,
      runtime,
      config,
    }),
  );
}

export interface RelayParts {
  readonly stores: Stores;
  /** Where the outbox is not in the database of the ledger. */
  readonly outboxTarget: OutboxTarget | null;
  readonly runtime: Runtime;
  readonly config: Pick<ResolvedConfig, 'relay' | 'admission' | 'worker'>;
}

type RelayVerbs = Pick<Relay, 'run' | 'pass' | 'drain'>;

/** A relay of the default outbox, or of one in another database, with connections of its own to that. */
export function makeRelay(parts: RelayParts): RelayVerbs {
  const { stores, outboxTarget, runtime, config } = parts;
  const { relay: settings } = config;
  const { broker } = stores;
  const receipts = receiptSources(stores, config);
  const book = new LimitBook(config.admission);
  const admission = new Admission({ store: stores.admission, book, runtime });
  const deps = { broker, admission, receipts, runtime, settings };
  const withRelay = async <T>(fn: (relay: Relay) => Promise<T>): Promise<T> => {
    if (outboxTarget === null) {
      const { outbox, outboxReads: reads } = stores;
      return await fn(new Relay({ outbox, reads, ...deps }));
    }
    const { db, outbox, reads } = await openOutboxApart(outboxTarget);
    try {
      return await fn(new Relay({ outbox, reads, ...deps }));
    } finally {
      await db.close();
    }
  };
  return {
    run: signal =>
      withRelay(relay => withHealth(relay, settings, runtime, () => relay.run(signal))),
    pass: signal => withRelay(relay => relay.pass(signal)),
    drain: signal => withRelay(relay => relay.drain(signal)),
  };
}

/** Whom relays and resurrectors ask about published tasks. */
function receiptSources(
  { ledgerReads: ledger, results }: Stores,
  { relay, worker }: Pick<ResolvedConfig, 'relay' | 'worker'>,
): ReceiptSources {
  return { ledger, results, timeoutMs: relay.receiptTimeoutMs, dedupMs: worker.dedupWindowMs };
}

type OwnWorkerOptions = StartOptions &
  Omit<WorkerOptions, 'processes' | 'maxTasks'> & { readonly tasks: readonly Handler[] };

/** Runs a worker in this process: no supervisor, so its death is seen when its lease is over. */
export async function startWorker(
  outlast: AnyOutlast,
  options: OwnWorkerOptions,
): Promise<Service> {
  return (await startWatchedWorker(outlast, options)).service;
}

/** The same, for somebody who wants to see how it does. */
export async function startWatchedWorker(
  outlast: AnyOutlast,
  options: OwnWorkerOptions,
): Promise<{ readonly service: Service; readonly isOpen: () => boolean }> {
  const { signal, tasks, ...worker } = options;
  const internals = outlast[INTERNALS];
  const { runtime } = internals;
  const config = embeddedDefaults(resolveConfig(internals.file, process.env, { worker }));
  const handlers = handlerMap(tasks);
  await preflight(config, internals.log);
  const rooms = await openRooms({
    handlers,
    source: () => findHandlerSource(config),
    settings: config.worker,
    runtime,
  });
  const name = `own:${systemRandom.token()}`;
  try {
    if (rooms) await shareEmbedded(internals);
    let made: WorkerService | null = null;
    const service = await startOn({ internals, config }, signal, stores => {
      made = makeWorker({ internals, stores, config, handlers, rooms, process: name });
      return withRooms(rooms, probed(made, config.worker, runtime));
    });
    return { service, isOpen: () => made?.isOpen ?? false };
  } catch (error) {
    await rooms?.close();
    throw error;
  }
}

/** Runs a resurrector in this process. */
export async function startResurrector(
  outlast: AnyOutlast,
  options: StartOptions & ResurrectorOptions = {},
): Promise<Service> {
  const { signal, ...resurrector } = options;
  const internals = outlast[INTERNALS];
  const config = resolveConfig(internals.file, process.env, { resurrector });
  const { runtime } = internals;
  return await startOn({ internals, config }, signal, stores =>
    makeResurrector({ stores, config, runtime }),
  );
}

export interface ResurrectorParts {
  readonly stores: Stores;
  readonly config: ResolvedConfig;
  readonly runtime: Runtime;
}

/** A resurrector that also cleans up outboxes in databases of their own. */
export function makeResurrector(parts: ResurrectorParts): Pick<Resurrector, 'run'> {
  const { stores, config, runtime } = parts;
  const { ledger, broker, outbox, results, admission } = stores;
  const settings = resurrectorSettings(config, runtime);
  const keys = { store: stores.idempotency, reads: stores.ledgerReads };
  const asking = { ledger: stores.ledgerReads, dedupMs: config.worker.dedupWindowMs };
  const fences = stores.fences && { ...asking, rows: stores.fences };
  const kept = { outbox, keys, fences, admission };
  const resurrector = new Resurrector({ ledger, broker, results, ...kept, runtime, settings });
  const receipts = receiptSources(stores, config);
  // Beside the relays: were all of them away, the ledger could forget endings before anybody has asked for them.
  const lookUp =
    outbox.move === null
      ? new Receipts({ ...receipts, store: outbox.receipts, runtime, onFree: () => undefined }).run
      : async () => undefined;
  return {
    run: async signal => {
      const ended = new AbortController();
      const either = AbortSignal.any([signal, ended.signal]);
      const store = await checkpointStoreOf(config, stores);
      const cleaning = Promise.all([
        countChordParts(parts, either),
        cleanOutboxes(config, { runtime, asking, receipts }, either),
        lookUp(either),
        cleanCheckpoints({ store, reads: stores.ledgerReads, runtime }, either),
      ]);
      try {
        await resurrector.run(signal);
      } finally {
        ended.abort();
        await cleaning;
      }
    },
  };
}

async function countChordParts(
  { stores, config, runtime }: ResurrectorParts,
  signal: AbortSignal,
): Promise<void> {
  const queue = chordQueueOf(config);
  if (queue === null) return;
  const { broker, ledger } = stores;
  const [redact, { keyring }] = [redactOf(config, runtime), config];
  await new ChordParts({ broker, ledger, queue, runtime, redact, keyring }).run(signal);
}

/** Opens connections of its own for a service, and closes them when it has ended. */
async function startOn(
  { internals, config }: { readonly internals: Internals; readonly config: ResolvedConfig },
  signal: AbortSignal | undefined,
  make: (stores: Stores) => { run(signal: AbortSignal): Promise<void> },
): Promise<Service> {
  // PGlite has one handle per process: services share the instance's.
  const isShared = internals.config.database.kind === 'pglite';
  const stores = isShared
    ? await internals.stores()
    : await internals.openStores(undefined, config);
  return startService(async inner => {
    try {
      await make(stores).run(inner);
    } catch (error) {
      internals.log.error({ error }, 'a service broke for good');
      throw error;
    } finally {
      if (!isShared) await stores.close();
    }
  }, signal);
}

export interface WorkerParts {
  readonly internals: Pick<Internals, 'runtime' | 'log'>;
  readonly stores: Stores;
  readonly config: ResolvedConfig;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly process: string;
  readonly heart?: Heart;
  readonly rooms?: RoomPool | null;
  /** Told when somebody asks this worker, through its broker, to end. */
  readonly onShutdown?: () => void;
  /** Aborts: a drain waits for nothing more. */
  readonly hurry?: AbortSignal;
}

/** A worker, and with it what makes it known to the tools of its fleet. */
export type WorkerService = Pick<Worker, 'run' | 'begun' | 'isOpen'> & {
  /** Null before it runs. */
  readonly status: WorkerStatus | null;
};

export function makeWorker({
  internals,
  stores,
  config,
  handlers,
  process: name,
  heart,
  rooms,
  onShutdown = () => undefined,
  hurry,
}: WorkerParts): WorkerService {
  const { ledger, broker, results } = stores;
  const { runtime } = internals;
  const beating = heart ?? makeHeart(config, ledger, internals);
  const settings = workerSettings(config, name);
  const redact = redactOf(config, runtime);
  const { keyring } = config;
  const asked = new AbortController();
  const onDrainAsked = (): void => {
    onShutdown();
    asked.abort();
  };
  const orders = { control: stores.control, onDrainAsked };
  const keys = { store: stores.idempotency, reads: stores.ledgerReads };
  const book = new LimitBook(config.admission);
  const places = new Places({ store: stores.admission, ledger, runtime });
  const gate = new Gate({ places, book, handlers, runtime });
  const deps = {
    ledger,
    broker,
    results,
    handlers,
    keys,
    runtime,
    heart: beating,
    redact,
    gate,
    keyring,
    settings,
    ...orders,
  };
  const registered = [...handlers.keys()];
  let worker: Worker | null = null;
  return {
    get status() {
      return worker?.status ?? null;
    },
    get begun() {
      return worker?.begun ?? 0;
    },
    get isOpen() {
      return worker?.isOpen ?? false;
    },
    run: async (outer, retire) => {
      const signal = AbortSignal.any([outer, asked.signal]);
      const store = await checkpointStoreOf(config, stores);
      const member = await joinFleet({ config, stores, runtime, registered, onShutdown });
      worker = new Worker({
        ...deps,
        largeCheckpoints: { store, maxBytes: config.worker.maxCheckpointBytes },
        ...(rooms ? { rooms } : {}),
        ...(hurry ? { hurry } : {}),
        ...(member ? { observer: member.observer } : {}),
      });
      await (member ? member.run(worker, signal, retire) : worker.run(signal, retire));
    },
  };
}

function workerSettings({ worker, broker }: ResolvedConfig, name: string): WorkerSettings {
  const { pid } = process;
  const ackOn = broker?.ackOn ?? 'commit';
  const runsAt = { pid, hostname: `outlast-${pid}@${hostname()}` };
  const started = worker.trackStarted === 'on' ? { runsAt } : {};
  return { ...worker, ackOn, process: name, host: hostname(), pid, ...started };
}

/** One process holds an embedded database: a thread would only reach it through this event loop. */
function makeHeart(
  config: ResolvedConfig,
  ledger: Stores['ledger'],
  { runtime, log }: WorkerParts['internals'],
): Heart {
  const isEmbedded = config.database.kind === 'pglite' && config.ledger.kind === 'database';
  return isEmbedded
    ? new LoopHeart(ledger, runtime, config.worker.beatMs)
    : new ThreadHeart(config, log);
}

/** A worker in somebody's own process, with the probes it was asked for. */
function probed(
  worker: WorkerService,
  options: ProbeOptions,
  runtime: Runtime,
): { run(signal: AbortSignal): Promise<void> } {
  const look = (): Health => (worker.status === null ? STARTING : healthOfWorker(worker.status));
  return { run: signal => withProbes(look, options, runtime, () => worker.run(signal)) };
}

const STARTING: Health = { alive: true, ready: false, details: {} };

export function resurrectorSettings(config: ResolvedConfig, runtime: Runtime): ResurrectorSettings {
  const { intervalMs, batchSize, afterDelayMs } = config.resurrector;
  const { leaseMs, beatMs } = config.worker;
  const { deadLetters: deadLetterAge } = config.retention;
  const redact = redactOf(config, runtime);
  const kept = { deadLetterAge, redact, keyring: config.keyring };
  return { intervalMs, afterDelayMs, chunk: batchSize, leaseMs, beatMs, ...kept };
}

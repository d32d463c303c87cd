import { hostname } from 'node:os';
import { LimitBook } from '../admission/limits.ts';
import { Reservations } from '../admission/reservations.ts';
import type { ResolvedConfig } from '../config/config.ts';
import { isEmbedded } from '../config/database-url.ts';
import type { Context } from '../context/context.ts';
import type { Stores } from '../context/stores.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Logger } from '../telemetry/logger.ts';
import { withBuiltins } from '../worker/celery-tasks.ts';
import type { Handler } from '../worker/handler.ts';
import type { IsolatePool } from '../worker/isolate/isolate-pool.ts';
import { type Heartbeat, LoopHeartbeat } from '../worker/lease/heartbeat.ts';
import { Gate } from '../worker/run/admit.ts';
import { Worker } from '../worker/worker.ts';
import type { WorkerDeps, WorkerSettings, WorkerStatus } from '../worker/worker-deps.ts';
import { destinationsOf, joinFleet } from './join-fleet.ts';
import { HeartbeatClient } from './heartbeat/heartbeat-client.ts';

export interface WorkerParts {
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly process: string;
  /** Left out: a thread, or this event loop if the process holds the ledger's database itself. */
  readonly heartbeat?: (ledger: Ledger) => Heartbeat;
  readonly isolates?: IsolatePool | null;
  /** Called when an operator asks this worker, through its broker, to end. */
  readonly onShutdown?: () => void;
  /** Aborts: a drain waits for nothing more. */
  readonly forceStop?: AbortSignal;
}

/** A worker, with its membership in the fleet. */
export type WorkerService = Pick<Worker, 'run' | 'begun' | 'isOpen'> & {
  /** Null before it runs. */
  readonly status: WorkerStatus | null;
};

export function makeWorker(context: Context, parts: WorkerParts): WorkerService {
  const { config } = context;
  const { handlers, onShutdown = () => undefined } = parts;
  const asked = new AbortController();
  const onDrainAsked = (): void => {
    onShutdown();
    asked.abort();
  };
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
      const stores = await context.stores();
      const store = await context.checkpoints();
      reportQueues(config.worker.queues, handlers, context.runtime.log);
      const member = await joinFleet({ context, stores, handlers, onShutdown });
      const { isolates, forceStop } = parts;
      worker = new Worker({
        ...workerDeps(context, stores, parts),
        onDrainAsked,
        largeCheckpoints: { store, maxBytes: config.worker.maxCheckpointBytes },
        ...(isolates ? { isolates } : {}),
        ...(forceStop ? { forceStop } : {}),
        ...(member ? { observer: member.observer } : {}),
      });
      await (member ? member.run(worker, signal, retire) : worker.run(signal, retire));
    },
  };
}

/** Handlers of which no task comes here are a queue that somebody has forgotten: nothing fails, and nothing runs. */
function reportQueues(
  taken: Readonly<Record<string, number>>,
  handlers: ReadonlyMap<string, Handler>,
  log: Logger,
): void {
  const queues = new Set([...handlers.values()].map(({ task }) => task.contract.queue));
  if (queues.size === 0 || [...queues].some(queue => queue in taken)) return;
  log.warn(
    { takesFrom: Object.keys(taken), tasksAreIn: [...queues] },
    'no handler here has its tasks in a queue that this worker takes from: name it in worker.queues or --queues',
  );
}

function workerDeps(
  { config, runtime, redact }: Context,
  stores: Stores,
  { handlers, process: name, heartbeat }: WorkerParts,
): WorkerDeps {
  const { ledger, broker, results, control, ledgerReads: reads } = stores;
  const { keyring, maxMessageBytes } = config;
  const book = new LimitBook(config.admission);
  const cleansUp = ledger.countsWithCelery === true;
  const all = config.broker === null ? handlers : withBuiltins(handlers, { cleansUp });
  const reservations = new Reservations({ store: stores.admission, ledger, runtime });
  return {
    ledger,
    broker,
    results,
    control,
    handlers: all,
    keys: { store: stores.idempotency, reads },
    runtime,
    heartbeat: heartbeat?.(ledger) ?? createHeartbeat(config, ledger, runtime),
    redact,
    gate: new Gate({ reservations, book, handlers, runtime }),
    keyring,
    maxMessageBytes,
    ...(config.worker.timeoutMs > 0 ? { timeoutMs: config.worker.timeoutMs } : {}),
    settings: workerSettings(config, name),
    ...destinationsOf(config, runtime.log, handlers),
  };
}

function workerSettings({ worker, broker }: ResolvedConfig, name: string): WorkerSettings {
  const { pid } = process;
  const ackOn = broker?.ackOn ?? 'commit';
  const runsAt = { pid, hostname: `outlast-${pid}@${hostname()}` };
  const started = worker.trackStarted === 'on' ? { runsAt } : {};
  const remembersSigned = broker !== null;
  return { ...worker, ackOn, remembersSigned, process: name, host: hostname(), pid, ...started };
}

/** One process holds an embedded database: a thread could only reach it through this event loop. */
export const beatsOnLoop = ({ database, ledger }: ResolvedConfig): boolean =>
  isEmbedded(database) && ledger.kind === 'database';

function createHeartbeat(config: ResolvedConfig, ledger: Ledger, runtime: Runtime): Heartbeat {
  return beatsOnLoop(config)
    ? new LoopHeartbeat(ledger, runtime, config.worker.beatMs)
    : new HeartbeatClient(config, runtime.log);
}

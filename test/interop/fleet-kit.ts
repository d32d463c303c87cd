import { hostname } from 'node:os';
import { pid } from 'node:process';
import { onTestFinished } from 'vitest';
import type { OutlastConfig } from '../../src/config/config.ts';
import type { WorkerOptions } from '../../src/config/worker-options.ts';
import {
  type Runtime,
  type Service,
  noFaults,
  startService,
  systemRandom,
} from '../../src/runtime/runtime.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import type { Redactor } from '../../src/task/redact.ts';
import { noEvents } from '../../src/telemetry/events.ts';
import type { TaskContext } from '../../src/worker/context.ts';
import { type Handler, defineHandler } from '../../src/worker/handler.ts';
import { LoopHeartbeat } from '../../src/worker/lease/heartbeat.ts';
import { makeResurrector } from '../../src/process/resurrector-service.ts';
import { makeWorker } from '../../src/process/worker-service.ts';
import { openContext } from '../../src/context/context.ts';
import type { Stores } from '../../src/context/stores.ts';

const BEAT_MS = 500;
const WITHOUT_FAULTS = { faultPoint: noFaults, emit: noEvents };
const refuse = (): Promise<never> => Promise.reject(new Error('not used here'));
const unused = {
  door: () => ({ locksTask: false, pass: refuse, fence: refuse }),
  sendInside: refuse,
};

/** A handler that accepts any input from Python. */
export function handlerOf(
  name: string,
  queue: string,
  run: (args: readonly unknown[], ctx: TaskContext) => unknown,
  // Not at once: its second run could be reported before the end of its first.
  { backoff = '300ms' }: { readonly backoff?: '1ms' | '300ms' } = {},
): Handler {
  const contract = task(name, {
    queue,
    args: unchecked<unknown[]>(),
    kwargs: unchecked<Record<string, unknown>>(),
    result: unchecked<unknown>(),
  });
  return defineHandler(
    contract,
    {
      retry: { maxAttempts: 2, backoff, jitter: 'none' },
      run: (input, ctx) => run((input as { args: unknown[] }).args, ctx as TaskContext),
    },
    unused,
  );
}

export interface FleetWorker {
  /** Its name among the nodes. */
  readonly node: string;
  readonly service: Service;
  readonly stores: Stores;
  /** Its name in the ledger. */
  readonly process: string;
}

export interface StartOptions {
  readonly database: string;
  readonly broker: string;
  /** Left out: the broker if that is Redis, else the database. */
  readonly ledger?: string | undefined;
  readonly handlers: readonly Handler[];
  readonly worker?: WorkerOptions;
  readonly redact?: Redactor;
  readonly celery?: OutlastConfig['celery'];
  readonly faultPoint?: Runtime['faultPoint'];
  readonly emit?: Runtime['emit'];
  /** Long: it does not learn that its lease was lost. */
  readonly beatMs?: number;
}

/** Workers of this process that have joined a fleet. */
let joined = 0;

/** A worker with its ledger in PostgreSQL, or in the Redis that is its broker; it ends with the test. */
export async function startFleetWorker(options: StartOptions): Promise<FleetWorker> {
  const { database, broker, ledger, handlers, worker = {}, redact, celery } = options;
  const { faultPoint = noFaults, emit = noEvents, beatMs = BEAT_MS } = options;
  const queues = [...new Set(handlers.map(handler => handler.task.contract.queue))];
  const context = openContext(
    {
      database,
      broker,
      ledger,
      redact,
      celery,
      worker: { queues, concurrency: 4, idleTime: '100ms', ...worker },
    },
    { env: {}, runtime: { faultPoint, emit } },
  );
  const process = `test:${systemRandom.token()}`;
  const stores = await context.stores();
  const service = startService(signal =>
    makeWorker(context, {
      handlers: new Map(handlers.map(handler => [handler.task.name, handler])),
      process,
      heartbeat: link => new LoopHeartbeat(link, context.runtime, beatMs),
    }).run(signal),
  );
  onTestFinished(async () => {
    await service.stop();
    await context.close();
  });
  if (worker.celeryControl !== 'off' || worker.celeryEvents === 'on') joined += 1;
  const number = joined === 1 ? '' : `-${joined}`;
  return { node: `outlast-${pid}${number}@${hostname()}`, service, stores, process };
}

/** A resurrector that treats everything as overdue at once; it ends with the test. */
export async function startRecovery(given: {
  readonly database: string;
  readonly broker: string;
  readonly ledger?: string | undefined;
}): Promise<void> {
  const resurrector = { interval: '100ms', afterDelay: '0s' } as const;
  const context = openContext({ ...given, resurrector }, { env: {}, runtime: WITHOUT_FAULTS });
  await context.stores();
  const service = startService(signal => makeResurrector(context).run(signal));
  onTestFinished(async () => {
    await service.stop();
    await context.close();
  });
}

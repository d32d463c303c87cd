import type { RelayOptions } from '../config/relay-options.ts';
import type { ResurrectorOptions } from '../config/resurrector-options.ts';
import type { WorkerOptions } from '../config/worker-options.ts';
import { preflight } from '../context/check-redis.ts';
import type { Context } from '../context/context.ts';
import { enterTier } from '../context/tier-memory.ts';
import { handlerMap, requireHandlers } from '../process/load-handlers.ts';
import type { Health } from '../process/health/health-server.ts';
import { withProbes } from '../process/health/health.ts';
import { healthOfWorker } from '../process/health/worker-health.ts';
import { heartbeatEntry } from '../process/heartbeat/heartbeat-client.ts';
import { findHandlerSource, isIsolated, openIsolates } from '../process/isolate/isolates.ts';
import { backlogGauges, workerGauges } from '../metrics/gauges.ts';
import type { Registry } from '../metrics/registry.ts';
import { withMetrics } from '../process/measure.ts';
import { type OwnRelay, besideOwnRelay, movesItself } from '../process/own-relay.ts';
import { besideScheduler } from '../process/scheduler-service.ts';
import { makeRelay } from '../process/relay-service.ts';
import { makeResurrector } from '../process/resurrector-service.ts';
import { type WorkerService, beatsOnLoop, makeWorker } from '../process/worker-service.ts';
import { type Service, startService, systemRandom } from '../runtime/runtime.ts';
import type { Handler } from '../worker/handler.ts';
import { CONTEXT, type Outlast } from './outlast.ts';

/** What every `start…` takes. */
export interface StartOptions {
  /** Stops the service when it aborts. */
  readonly signal?: AbortSignal;
}

export type AnyOutlast = Pick<Outlast<never>, typeof CONTEXT>;

export async function relayOn(
  outlast: AnyOutlast,
  options: StartOptions & RelayOptions = {},
): Promise<Service> {
  const { signal, ...relay } = options;
  const context = outlast[CONTEXT].forService({ relay });
  return await startOn(context, signal, running => makeRelay(context).run(running));
}

export async function resurrectorOn(
  outlast: AnyOutlast,
  options: StartOptions & ResurrectorOptions = {},
): Promise<Service> {
  const { signal, ...resurrector } = options;
  const context = outlast[CONTEXT].forService({ resurrector });
  return await startOn(context, signal, running => makeResurrector(context).run(running));
}

export type OwnWorkerOptions = StartOptions &
  Omit<WorkerOptions, 'processes' | 'maxTasks'> & { readonly tasks: readonly Handler[] };

/** A worker, and whether it can take tasks yet. */
export async function workerOn(
  outlast: AnyOutlast,
  options: OwnWorkerOptions,
): Promise<{ readonly service: Service; readonly isOpen: () => boolean }> {
  const { signal, tasks, ...flags } = options;
  const context = outlast[CONTEXT].forService({ worker: flags });
  const { config, runtime } = context;
  const handlers = handlerMap(tasks);
  requireHandlers(handlers, []);
  // Before anything is opened, so that the caller gets the error, and not the log alone.
  if (!beatsOnLoop(config)) heartbeatEntry();
  await preflight(context);
  const isolates = await openShared(context, handlers);
  try {
    const worker = makeWorker(context, {
      handlers,
      isolates,
      process: `own:${systemRandom.token()}`,
    });
    const service = await startOn(context, signal, async running => {
      try {
        const own: OwnRelay = { current: null };
        const gauges = [
          workerGauges(() => worker.status),
          ...(movesItself(config) ? [backlogGauges(() => own.current?.status ?? null)] : []),
        ];
        const measured = {
          process: 'worker',
          isServed: config.worker.healthPort !== null,
          gauges: (registry: Registry) => gauges.forEach(set => set(registry)),
          hasLedger: true as const,
        };
        await withMetrics(context, measured, metrics =>
          withProbes(
            () => healthOf(worker),
            { ...config.worker, metrics },
            runtime,
            () =>
              besideScheduler(context, () =>
                besideOwnRelay(context, metrics && own, () => worker.run(running)),
              ),
          ),
        );
      } finally {
        await isolates?.close();
      }
    });
    return { service, isOpen: () => worker.isOpen };
  } catch (error) {
    await isolates?.close();
    await context.close();
    throw error;
  }
}

/** Threads and processes get the environment of when they start, and by it find a database in memory: so that is shared first. */
async function openShared(
  context: Context,
  handlers: ReadonlyMap<string, Handler>,
): ReturnType<typeof openIsolates> {
  const { config, runtime } = context;
  try {
    if ([...handlers.values()].some(isIsolated)) await context.shareEmbedded();
    return await openIsolates({
      handlers,
      source: () => findHandlerSource(config),
      settings: config.worker,
      runtime,
    });
  } catch (error) {
    await context.close();
    throw error;
  }
}

const STARTING: Health = { alive: true, ready: false, details: {} };

const healthOf = ({ status }: WorkerService): Health =>
  status === null ? STARTING : healthOfWorker(status);

/** Runs a service on its own context, which is closed with it. The caller gets the error if it cannot be opened. */
async function startOn(
  context: Context,
  signal: AbortSignal | undefined,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<Service> {
  try {
    await context.stores();
  } catch (error) {
    await context.close();
    throw error;
  }
  return startService(async running => {
    try {
      await enterTier(context);
      await run(running);
    } catch (error) {
      context.log.error({ error }, 'a service broke for good');
      throw error;
    } finally {
      await context.close();
    }
  }, signal);
}

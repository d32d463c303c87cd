import type { RelayOptions } from '../config/relay-options.ts';
import type { ResurrectorOptions } from '../config/resurrector-options.ts';
import type { Service } from '../runtime/runtime.ts';
import type { Duration } from '../task/duration.ts';
import type { Handler } from '../worker/handler.ts';
import type { RunOnceReport } from './run-once.ts';
import type { AnyOutlast, OwnWorkerOptions, StartOptions } from './services.ts';

// Most processes that import Outlast only send: what runs tasks is loaded by the first call.

/**
 * Runs a relay in this process.
 *
 * @throws ERR_SCHEMA_MISSING, ERR_SCHEMA_NEWER, ERR_CONFIG_TIER, ERR_DRIVER_MISSING, ERR_STORE_UNAVAILABLE
 *
 * @example
 * const relay = await startRelay(outlast, { signal: shutdownSignal(), batchSize: 500 });
 * await relay.finished;
 */
export async function startRelay(
  outlast: AnyOutlast,
  options: StartOptions & RelayOptions = {},
): Promise<Service> {
  const { relayOn } = await import('./services.ts');
  return await relayOn(outlast, options);
}

/**
 * Runs a resurrector in this process.
 *
 * @throws ERR_SCHEMA_MISSING, ERR_SCHEMA_NEWER, ERR_DRIVER_MISSING, ERR_STORE_UNAVAILABLE
 *
 * @example
 * const recovery = await startResurrector(outlast, { signal: shutdownSignal() });
 * await recovery.finished;
 */
export async function startResurrector(
  outlast: AnyOutlast,
  options: StartOptions & ResurrectorOptions = {},
): Promise<Service> {
  const { resurrectorOn } = await import('./services.ts');
  return await resurrectorOn(outlast, options);
}

/**
 * Runs a worker in this process: there is no supervisor, so its death is noticed when its lease is over.
 *
 * @throws ERR_NO_HANDLERS, ERR_TASK_DUPLICATE, ERR_VERSION_UNREACHABLE, ERR_SCHEMA_MISSING, ERR_SCHEMA_NEWER, ERR_STORE_UNAVAILABLE
 *
 * @example
 * const worker = await startWorker(outlast, { tasks: [chargeHandler], concurrency: 20 });
 * await worker.stop(); // drains
 */
export async function startWorker(
  outlast: AnyOutlast,
  options: OwnWorkerOptions,
): Promise<Service> {
  const { workerOn } = await import('./services.ts');
  return (await workerOn(outlast, options)).service;
}

/**
 * Relays, runs and recovers until it has nothing left to do, or the time is over: for cron routes.
 *
 * @example
 * await runOnce(outlast, { tasks: [chargeHandler], maxTime: '50s' });
 */
export async function runOnce(
  outlast: AnyOutlast,
  options: { readonly tasks: readonly Handler[]; readonly maxTime?: Duration },
): Promise<RunOnceReport> {
  const { runUntilIdle } = await import('./run-once.ts');
  return await runUntilIdle(outlast, options);
}

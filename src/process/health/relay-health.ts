import { queueDepthOf } from '../../outbox/outbox-reads.ts';
import type { Relay } from '../../relay/relay.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { Health } from './health-server.ts';
import { withProbes, type ProbeOptions } from './health.ts';

export interface HealthOptions extends ProbeOptions {
  readonly sendTimeoutMs: number;
}

/** A healthy relay never goes without progress for longer, whatever it waits for. */
const LEAST_STALL_MS = 15_000;

/** Serves to probes whether a relay makes progress, as long as `fn` runs. */
export async function withHealth<T>(
  relay: Pick<Relay, 'status'>,
  options: HealthOptions,
  runtime: Pick<Runtime, 'clock' | 'log'>,
  fn: () => Promise<T>,
): Promise<T> {
  const stallMs = Math.max(LEAST_STALL_MS, options.sendTimeoutMs * 2);
  return await withProbes(() => healthOf(relay, stallMs), options, runtime, fn);
}

function healthOf({ status }: Pick<Relay, 'status'>, stallMs: number): Health {
  const { idleMs, breaker, sample, workerLetters } = status;
  const letters = sample?.deadLetters ?? null;
  const oldestMs = sample?.oldestPendingMs ?? null;
  return {
    alive: idleMs < stallMs,
    ready: breaker !== 'open',
    details: {
      idle_seconds: Math.round(idleMs) / 1_000,
      breaker,
      queue_depth: sample === null ? null : queueDepthOf(sample),
      scheduled: sample?.scheduled ?? null,
      backoff: sample?.backoff ?? null,
      deferred: sample?.deferred ?? null,
      dlq_count: letters === null || workerLetters === null ? null : letters + workerLetters,
      dlq: { outbox: letters, worker: workerLetters },
      oldest_pending_seconds: oldestMs === null ? null : oldestMs / 1_000,
      unsupported: sample?.unsupported ?? null,
    },
  };
}

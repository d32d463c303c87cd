import type { Relay } from '../relay/relay.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { withProbes, type Health, type ProbeOptions } from './health.ts';

export interface HealthOptions extends ProbeOptions {
  readonly sendTimeoutMs: number;
}

/** A healthy relay is never silent for longer, whatever it waits for. */
const LEAST_PATIENCE_MS = 15_000;

/** Shows probes whether a relay makes progress, as long as `fn` runs. */
export async function withHealth<T>(
  relay: Pick<Relay, 'status'>,
  options: HealthOptions,
  runtime: Pick<Runtime, 'clock' | 'log'>,
  fn: () => Promise<T>,
): Promise<T> {
  const patienceMs = Math.max(LEAST_PATIENCE_MS, options.sendTimeoutMs * 2);
  return await withProbes(() => healthOf(relay, patienceMs), options, runtime, fn);
}

function healthOf({ status }: Pick<Relay, 'status'>, patienceMs: number): Health {
  const { idleMs, breaker, sample } = status;
  const oldestMs = sample?.oldestPendingMs ?? null;
  return {
    alive: idleMs < patienceMs,
    ready: breaker !== 'open',
    details: {
      idle_seconds: Math.round(idleMs) / 1_000,
      breaker,
      queue_depth: sample === null ? null : sample.pending + sample.claimed,
      dlq_count: sample?.deadLetters ?? null,
      oldest_pending_seconds: oldestMs === null ? null : oldestMs / 1_000,
      unsupported: sample?.unsupported ?? null,
    },
  };
}

import type { Broker } from '../broker/broker.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { Jitter } from '../runtime/backoff.ts';
import type { Runtime } from '../runtime/runtime.ts';

export interface RelaySettings {
  readonly batchSize: number;
  readonly idleTimeMs: number;
  readonly backoffTimeMs: number;
  readonly maxBackoffMs: number;
  readonly jitter: Jitter;
  readonly maxRetries: number;
  readonly staleTimeoutMs: number;
  readonly sendTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
}

export interface RelayDeps {
  readonly outbox: OutboxStore;
  readonly broker: Broker;
  readonly runtime: Runtime;
  readonly settings: RelaySettings;
}

import type { Admission } from '../admission/admission.ts';
import type { Broker } from '../broker/broker.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { Jitter } from '../runtime/backoff.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { ReceiptSources } from './receipts.ts';

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
  readonly brokerOutageCooldownMs: number;
  readonly publishConcurrency: number;
  readonly queueSnapshotRefreshMs: number;
}

export interface RelayDeps {
  readonly outbox: OutboxStore;
  readonly reads: Pick<OutboxReads, 'sample'>;
  readonly broker: Pick<Broker, 'publish'>;
  /** Left out: nothing is limited. */
  readonly admission?: Admission;
  /** Left out: a confirmed row goes, whatever its task asks for. */
  readonly receipts?: ReceiptSources;
  readonly runtime: Runtime;
  readonly settings: RelaySettings;
}

import type { Admission } from '../admission/admission.ts';
import type { Broker } from '../broker/broker.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxStore, RelayOutbox } from '../outbox/outbox-store.ts';
import type { Jitter } from '../runtime/backoff.ts';
import type { SpareLink } from '../runtime/hedged-store.ts';
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
  readonly outbox: RelayOutbox & Pick<OutboxStore, 'receipts'>;
  /** Another connection to it, for the relay's lease. Left out: there is none. */
  readonly openSpare?: (() => Promise<SpareLink<RelayOutbox>>) | null;
  /** Null: its figures are not taken. */
  readonly reads: Pick<OutboxReads, 'sample'> | null;
  /** Counts the dead letters of workers, for the same figures. Left out: they are not known. */
  readonly letters?: Pick<LedgerReads, 'countDead'>;
  readonly broker: Pick<Broker, 'publish' | 'hasQueues'>;
  /** Left out: nothing is limited. */
  readonly admission?: Admission;
  /** Left out: a confirmed row is deleted, whatever its task asks for. */
  readonly receipts?: ReceiptSources;
  readonly runtime: Runtime;
  readonly settings: RelaySettings;
}

import { type Admission, admissionRequestOf } from '../admission/admission.ts';
import type { Broker } from '../broker/broker.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxRow, OutboxStore, RelayOutbox } from '../outbox/outbox-store.ts';
import type { Jitter } from '../runtime/backoff.ts';
import type { SpareLink } from '../runtime/hedged-store.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { ReceiptSources } from './receipts.ts';
import { isLimited, subjectOf } from '../admission/limits.ts';
import type { RateReservations } from '../admission/take-rates.ts';

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
  /** Whether messages say when their row was claimed and published. Left out: they do not. */
  readonly lifeLine?: boolean;
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

/** A row over its limit, and how long it must stay in the outbox. */
export interface WaitingRow {
  readonly row: OutboxRow;
  readonly waitMs: number;
}

/** The rows that may be published now, and those that wait. */
export interface AdmittedRows {
  readonly rows: readonly OutboxRow[];
  readonly waiting: readonly WaitingRow[];
  /** Admitted rows that were not published give back what they took. */
  readonly refund: (unpublished: readonly OutboxRow[]) => Promise<void>;
}

const noRefund = async (): Promise<void> => undefined;

/** Takes from the rates of rows that have one, in a few calls for all of them. Throws if the store is away. */
export async function admitRows(
  rows: readonly OutboxRow[],
  admission: Admission | null,
): Promise<AdmittedRows> {
  if (admission === null) return { rows, waiting: [], refund: noRefund };
  const closed = await admission.closedTo(() =>
    rows.map(({ envelope }) => admissionRequestOf(envelope)),
  );
  if (closed !== null) {
    const waiting = rows.map((row, at) => ({ row, waitMs: closed[at] ?? 0 }));
    return { rows: [], waiting, refund: noRefund };
  }
  const limited = rows.filter(({ envelope }) => isLimited(envelope.options));
  if (limited.length === 0) return { rows, waiting: [], refund: noRefund };
  const newcomers = limited.map(({ envelope, isFirstClaim }) => ({
    ...admissionRequestOf(envelope),
    isReturning: !isFirstClaim,
  }));
  const { waits, reservations } = await admission.enterMany(newcomers);
  const waitOf = new Map(limited.map((row, at) => [row, waits[at] ?? null]));
  const waiting = limited.flatMap(row => {
    const waitMs = waitOf.get(row) ?? null;
    return waitMs === null ? [] : [{ row, waitMs }];
  });
  return {
    rows: rows.filter(row => (waitOf.get(row) ?? null) === null),
    waiting,
    refund: unpublished => refund(unpublished, reservations, admission),
  };
}

async function refund(
  rows: readonly OutboxRow[],
  reservations: RateReservations,
  admission: Admission,
): Promise<void> {
  for (const { envelope } of rows)
    if (isLimited(envelope.options))
      reservations.spare(admission.ratesOf(subjectOf(envelope, undefined)));
  await reservations.refund();
}

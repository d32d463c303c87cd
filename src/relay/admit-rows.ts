import { admissionRequestOf, type Admission } from '../admission/admission.ts';
import { isLimited } from '../admission/limited.ts';
import { subjectOf } from '../admission/subject.ts';
import type { RateReservations } from '../admission/take-rates.ts';
import type { OutboxRow } from '../outbox/outbox-store.ts';

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

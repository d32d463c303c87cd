import {
  checkPosition,
  startOf,
  tenantIn,
  type LedgerSection,
  type Slice,
  type TaskLine,
  type TaskRecordView,
  type WalkRequest,
} from '../../ledger/task-line.ts';
import { shownPayload } from '../../task/redacted.ts';
import { iso } from './memory-outbox-reads.ts';
import type { TaskRecord } from './memory-record.ts';

const STATES: Readonly<Record<LedgerSection, readonly TaskRecord['state'][]>> = {
  running: ['running'],
  waiting: ['waiting'],
  over: ['done', 'cancelled'],
};

/** A slice of one of the lists of the ledger in RAM. */
export function walkRecords(
  records: readonly TaskRecord[],
  { section, queue, after, limit }: WalkRequest,
): Slice {
  if (after !== null) checkPosition(after, [/^[^]*$/]);
  const start = after?.[0] ?? '';
  return records
    .filter(({ state }) => STATES[section].includes(state))
    .filter(({ envelope }) => queue === null || envelope?.queue === queue)
    .map(record => ({ record, key: keyOf(record, section) }))
    .filter(({ key }) => key > start)
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .slice(0, limit)
    .map(({ record, key }) => ({ task: lineOf(record), at: [key] }));
}

/** What the list is sorted by. */
function keyOf(
  { id, dueMs, order, envelope, dedupUntilMs }: TaskRecord,
  section: LedgerSection,
): string {
  const digits = (number: number): string => String(number).padStart(17, '0');
  switch (section) {
    case 'running':
      return id;
    case 'waiting':
      return `${envelope?.queue ?? ''} ${digits(dueMs)} ${digits(order)}`;
    case 'over':
      return `${digits(1e16 - dedupUntilMs)} ${id}`;
  }
}

function lineOf(record: TaskRecord): TaskLine {
  const { id, state, epoch, failures, crashes, envelope, history, why, error } = record;
  const isRunning = state === 'running';
  return {
    id,
    name: envelope?.name ?? '',
    queue: envelope?.queue ?? '',
    state,
    epoch,
    failures,
    crashes,
    createdAt: iso(record.createdMs),
    dueAt: state === 'waiting' ? iso(record.dueMs) : null,
    startedAt: isRunning ? (startOf(history)?.at ?? null) : null,
    worker: isRunning ? record.worker : null,
    endedAt: record.ending === null ? null : iso(record.endedMs),
    reason: state === 'dead' ? why : null,
    // The reason of a discard.
    error: error?.message ?? (record.ending === 'discarded' ? why : null),
    tenant: envelope === null ? null : tenantIn(envelope.options),
    orderingKey: null,
  };
}

export function viewOf(record: TaskRecord, nowMs: number): TaskRecordView {
  const { envelope, crashes, crashBudget, ending, history, result, refused } = record;
  const body = envelope?.body.slice() ?? new Uint8Array();
  const options = envelope?.options.slice() ?? new Uint8Array();
  const shown = shownPayload({ body, options, redactedArgs: null, redactedKwargs: null });
  return {
    ...lineOf(record),
    ...shown,
    ...(body.length === 0 ? { body } : {}),
    ending,
    history: [...history],
    result: result?.slice() ?? null,
    isSuspect: crashes > 0 && crashes >= Math.min(2, crashBudget),
    refusedBy: refused?.worker ?? null,
    nowMs,
  };
}

import { letterReason } from '../../errors/letter-reason.ts';
import type {
  DeadLetterDetails,
  DeadLetterPage,
  Failing,
  LetterPageRequest,
  PageRequest,
} from '../../ledger/dead-letter.ts';
import type {
  OutboxEntry,
  OutboxPage,
  OutboxReads,
  OutboxSample,
  RowView,
} from '../../outbox/outbox-reads.ts';
import { ROW_SCHEMA_VERSION } from '../../outbox/outbox-writer.ts';
import { tenantIn } from '../../ledger/task-line.ts';
import { toBytes } from '../../task/json.ts';
import { shownPayload } from '../../task/redacted.ts';
import { pageOf } from './memory-letters.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import { firstDueMs, OUTBOX_GUARDS, type OutboxRecord } from './memory-outbox-guards.ts';
import type { MemoryOutboxStore } from './memory-outbox-store.ts';
import type { TaskRecord } from './memory-record.ts';

export const iso = (ms: number): string => new Date(ms).toISOString();

/** The read side of the outbox in RAM, for operators. */
export class MemoryOutboxReads implements OutboxReads {
  readonly #store: MemoryOutboxStore;
  readonly #ledger: Pick<MemoryLedger, 'state'> | null;

  /** `ledger`: one in the same database, so that its waiting tasks are counted. */
  constructor(store: MemoryOutboxStore, ledger: Pick<MemoryLedger, 'state'> | null = null) {
    this.#store = store;
    this.#ledger = ledger;
  }

  async sample(top: number): Promise<OutboxSample> {
    const rows = this.#rows();
    const { nowMs, deadLetters } = this.#store;
    const queues = new Map<string, number>();
    for (const { envelope } of rows) {
      queues.set(envelope.queue, (queues.get(envelope.queue) ?? 0) + 1);
    }
    return {
      ...backlogOf(rows, this.#waiting(), nowMs),
      claimed: rows.filter(row => row.state === 'claimed').length,
      sent: rows.filter(row => row.state === 'sent').length,
      unsupported: rows.filter(row => row.rowVersion > ROW_SCHEMA_VERSION).length,
      deadLetters: deadLetters.size,
      queues: [...queues]
        .map(([queue, count]) => ({ queue, rows: count }))
        .sort((a, b) => (a.queue < b.queue ? -1 : 1)),
      topFailing: mostFailing(
        [...rows, ...deadLetters.values()].map(({ envelope, retries }) => ({
          name: envelope.name,
          failures: retries,
        })),
        top,
      ),
    };
  }

  async list({ limit, cursor }: PageRequest): Promise<OutboxPage> {
    const behind = this.#rows().filter(({ row }) => cursor === null || row > Number(cursor));
    const items = behind.slice(0, limit).map(entryOf);
    return { items, next: behind.length > limit ? (items.at(-1)?.row ?? null) : null };
  }

  async recent(limit: number): Promise<readonly OutboxEntry[]> {
    return this.#rows().toReversed().slice(0, limit).map(entryOf);
  }

  async find(id: string): Promise<OutboxEntry | null> {
    const found = this.#rows().find(({ envelope }) => envelope.id === id);
    return found === undefined ? null : entryOf(found);
  }

  async view(id: string): Promise<RowView | null> {
    const found = this.#rows().find(({ envelope }) => envelope.id === id);
    return found === undefined ? null : this.#viewOf(found);
  }

  #viewOf(found: OutboxRecord): RowView {
    const { nowMs, deadLetters } = this.#store;
    const { envelope, redacted, orderingKey, row, state, claims, relay } = found;
    const isSame = (other: OutboxRecord): boolean =>
      orderingKey !== null && other.orderingKey === orderingKey;
    const parked = [...deadLetters.values()].find(other => isSame(other) && other.parksKey);
    const front = parked ?? this.#rows().find(other => isSame(other) && other.row < row);
    const leaseUntilMs = this.#store.leases.get(relay);
    return {
      ...entryOf(found),
      ...shownPayload({
        body: envelope.body.slice(),
        options: envelope.options.slice(),
        redactedArgs: redacted === null ? null : toBytes(redacted.args),
        redactedKwargs: redacted === null ? null : toBytes(redacted.kwargs),
      }),
      claims,
      claimedBy: state === 'claimed' ? relay : null,
      isClaimOver: OUTBOX_GUARDS.isClaimOver(found, leaseUntilMs, nowMs),
      etaAt: envelope.etaMs === null ? null : iso(envelope.etaMs),
      behind: front === undefined ? null : { id: front.envelope.id, isParked: front === parked },
      relays: [...this.#store.leases.values()].filter(untilMs => untilMs >= nowMs).length,
      history: [...found.history],
      nowMs,
    };
  }

  async listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage> {
    return pageOf([...this.#store.deadLetters].map(letterOf), page);
  }

  async showDeadLetter(id: string): Promise<DeadLetterDetails | null> {
    const record = this.#store.deadLetters.get(id);
    return record === undefined ? null : letterOf([id, record]);
  }

  #waiting(): TaskRecord[] {
    const records = [...(this.#ledger?.state.records.values() ?? [])];
    return records.filter(({ state }) => state === 'waiting');
  }

  #rows(): OutboxRecord[] {
    return [...this.#store.rows.values()].sort((a, b) => a.row - b.row);
  }
}

type Backlog = Pick<
  OutboxSample,
  'pending' | 'due' | 'scheduled' | 'backoff' | 'deferred' | 'oldestPendingMs'
>;

function backlogOf(
  rows: readonly OutboxRecord[],
  tasks: readonly TaskRecord[],
  nowMs: number,
): Backlog {
  const pending = rows.filter(row => row.state === 'pending');
  const later = pending.filter(row => row.availableMs > nowMs);
  const back = later.filter(row => row.claims > 0 || row.version > 0);
  const backoff = back.filter(row => row.retries > 0).length;
  const dueTasks = tasks.filter(task => task.dueMs <= nowMs);
  const laterTasks = tasks.filter(task => task.dueMs > nowMs);
  const triedTasks = laterTasks.filter(task => task.failures + task.crashes > 0).length;
  const since = [
    ...rows.filter(row => row.state !== 'sent').map(firstDueMs),
    ...dueTasks.map(taskSinceMs),
  ].filter(atMs => atMs <= nowMs);
  return {
    pending: pending.length,
    due: pending.length - later.length + dueTasks.length,
    scheduled: later.length - back.length + laterTasks.length - triedTasks,
    backoff: backoff + triedTasks,
    deferred: back.length - backoff,
    oldestPendingMs: since.length === 0 ? null : nowMs - Math.min(...since),
  };
}

const taskSinceMs = ({ epoch, createdMs, dueMs, envelope }: TaskRecord): number =>
  epoch === 0 ? Math.max(createdMs, envelope?.etaMs ?? 0) : dueMs;

/** Sums by name, the greatest first. */
export function mostFailing(failures: readonly Failing[], top: number): readonly Failing[] {
  const sums = new Map<string, number>();
  for (const { name, failures: count } of failures) {
    if (count > 0) sums.set(name, (sums.get(name) ?? 0) + count);
  }
  const all = [...sums].map(([name, count]) => ({ name, failures: count }));
  all.sort((a, b) => b.failures - a.failures || (a.name < b.name ? -1 : 1));
  return all.slice(0, top);
}

function entryOf(record: OutboxRecord): OutboxEntry {
  const { row, envelope, state, retries, lastError, orderingKey, rowVersion } = record;
  const { id, name, queue } = envelope;
  return {
    row: String(row),
    id,
    name,
    queue,
    state,
    isSupported: rowVersion <= ROW_SCHEMA_VERSION,
    retries,
    lastError,
    createdAt: iso(record.createdMs),
    availableAt: iso(record.availableMs),
    orderingKey,
    tenant: tenantIn(envelope.options),
  };
}

function letterOf([id, record]: [string, OutboxRecord]): DeadLetterDetails {
  const { envelope, redacted, lastError, version, createdMs, deadMs, history } = record;
  return {
    id,
    name: envelope.name,
    queue: envelope.queue,
    where: 'relay',
    reason: letterReason(lastError ?? ''),
    error: lastError ?? '',
    deadAt: iso(deadMs),
    version,
    createdAt: iso(createdMs),
    tenant: tenantIn(envelope.options),
    orderingKey: record.orderingKey,
    expiresAt: envelope.expiresMs === null ? null : iso(envelope.expiresMs),
    ...shownPayload({
      body: envelope.body.slice(),
      options: envelope.options.slice(),
      redactedArgs: redacted === null ? null : toBytes(redacted.args),
      redactedKwargs: redacted === null ? null : toBytes(redacted.kwargs),
    }),
    history: [...history],
  };
}

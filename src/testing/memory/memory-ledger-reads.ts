import type {
  DeadLetterDetails,
  DeadLetterPage,
  LetterPageRequest,
  TaskDetails,
} from '../../ledger/dead-letter.ts';
import type { LedgerReads, LedgerSample, TaskMoment } from '../../ledger/ledger-reads.ts';
import type { TaskState } from '../../ledger/ledger.ts';
import type { ObjectiveCounts, TaskTotals } from '../../ledger/tallies.ts';
import type { Ending } from '../../result/result-store.ts';
import type { OpenChords } from '../../ledger/open-chord.ts';
import {
  tenantIn,
  type Slice,
  type TaskRecordView,
  type WalkRequest,
} from '../../ledger/task-line.ts';
import { shownPayload } from '../../task/redacted.ts';
import { openChords } from './memory-chord.ts';
import { pageOf } from './memory-letters.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import { iso, mostFailing } from './memory-outbox-reads.ts';
import type { TaskRecord } from './memory-record.ts';
import { viewOf, walkRecords } from './memory-walk.ts';

/** Tasks that ended and were withdrawn or forgotten: of the dead, only purged ones. */
const COUNTED_AS: Readonly<Record<Ending, keyof LedgerSample['tasks']>> = {
  done: 'done',
  discarded: 'done',
  dead: 'purged',
  cancelled: 'cancelled',
  expired: 'expired',
};

type Counts = { -readonly [K in keyof LedgerSample['tasks']]: number };

/** The read side of the ledger in RAM, for operators. */
export class MemoryLedgerReads implements LedgerReads {
  readonly #ledger: MemoryLedger;

  constructor(ledger: MemoryLedger) {
    this.#ledger = ledger;
  }

  async sample(top: number): Promise<LedgerSample> {
    const { nowMs, workers } = this.#ledger.state;
    const living = [...workers.values()].filter(
      ({ isClosed, deadlineMs }) => !isClosed && deadlineMs >= nowMs,
    );
    return {
      tasks: this.#countStates(),
      queues: this.#countQueues(),
      topFailing: mostFailing(this.#records().map(failuresOf), top),
      workers: living.length,
    };
  }

  async listDead(page: LetterPageRequest): Promise<DeadLetterPage> {
    return pageOf(this.#dead(), page);
  }

  async countDead(): Promise<number> {
    return this.#dead().length;
  }

  async showDead(id: string): Promise<DeadLetterDetails | null> {
    return this.#dead().find(letter => letter.id === id) ?? null;
  }

  async inspect(id: string): Promise<TaskDetails | null> {
    const record = this.#ledger.state.records.get(id);
    return record === undefined ? null : detailsOf(record);
  }

  async view(id: string): Promise<TaskRecordView | null> {
    const record = this.#ledger.state.records.get(id);
    return record === undefined ? null : viewOf(record, this.#ledger.state.nowMs);
  }

  async walk(request: WalkRequest): Promise<Slice> {
    return walkRecords(this.#records(), request);
  }

  async states(ids: readonly string[]): Promise<readonly (TaskState | null)[]> {
    return ids.map(id => this.#ledger.state.records.get(id)?.state ?? null);
  }

  async recent(limit: number): Promise<readonly TaskDetails[]> {
    const newest = this.#records().sort((a, b) => b.createdMs - a.createdMs || b.order - a.order);
    return newest.slice(0, limit).map(detailsOf);
  }

  async moments(ids: readonly string[]): Promise<readonly TaskMoment[]> {
    const { workers } = this.#ledger.state;
    return this.#records()
      .filter(({ id, state }) => ids.includes(id) && state !== 'done' && state !== 'cancelled')
      .map(({ id, version, state, worker, checkpoint, dueMs }) => ({
        id,
        version,
        process: state === 'running' ? (workers.get(worker)?.process ?? null) : null,
        checkpoint: checkpoint?.data ?? null,
        dueMs,
      }));
  }

  async openChords(limit: number): Promise<OpenChords> {
    const all = openChords(this.#ledger.state);
    return { open: all.length, oldest: all.slice(0, limit) };
  }

  async totals(): Promise<readonly TaskTotals[]> {
    return this.#ledger.state.tallies.totals();
  }

  async objectives(): Promise<ObjectiveCounts> {
    return this.#ledger.state.tallies.objectives();
  }

  #records(): TaskRecord[] {
    return [...this.#ledger.state.records.values()];
  }

  #dead(): DeadLetterDetails[] {
    return this.#records()
      .filter(record => record.state === 'dead')
      .map(letterOf);
  }

  #countStates(): Counts {
    const counts: Counts = {
      waiting: 0,
      running: 0,
      done: 0,
      dead: 0,
      cancelled: 0,
      expired: 0,
      purged: 0,
    };
    for (const { state, ending } of this.#records()) {
      counts[state === 'cancelled' && ending !== null ? COUNTED_AS[ending] : state] += 1;
    }
    for (const [ending, count] of this.#ledger.state.forgotten) counts[COUNTED_AS[ending]] += count;
    return counts;
  }

  #countQueues(): LedgerSample['queues'] {
    const queues = new Map<string, { queue: string; waiting: number; running: number }>();
    for (const { envelope, state } of this.#records()) {
      if (envelope === null || (state !== 'waiting' && state !== 'running')) continue;
      const { queue } = envelope;
      const counts = queues.get(queue) ?? { queue, waiting: 0, running: 0 };
      counts[state] += 1;
      queues.set(queue, counts);
    }
    return [...queues.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1));
  }
}

/** A death without a failed run, as with unreadable bytes, counts as one. */
function failuresOf({ envelope, state, failures, crashes }: TaskRecord) {
  const isOver = state === 'done' || state === 'cancelled';
  const count = isOver ? 0 : Math.max(failures + crashes, state === 'dead' ? 1 : 0);
  return { name: envelope?.name ?? '', failures: count };
}

function detailsOf(record: TaskRecord): TaskDetails {
  const { id, state, epoch, failures, crashes, envelope } = record;
  return {
    id,
    name: envelope?.name ?? '',
    queue: envelope?.queue ?? '',
    state,
    epoch,
    failures,
    crashes,
    createdAt: iso(record.createdMs),
    history: [...record.history],
  };
}

const NO_BYTES = new Uint8Array();

function letterOf(record: TaskRecord): DeadLetterDetails {
  const { id, envelope, version } = record;
  const expiresMs = envelope?.expiresMs ?? null;
  return {
    id,
    name: envelope?.name ?? '',
    queue: envelope?.queue ?? '',
    where: 'worker',
    reason: record.why ?? '',
    error: record.error?.message ?? '',
    deadAt: iso(record.endedMs),
    version,
    createdAt: iso(record.createdMs),
    tenant: envelope === null ? null : tenantIn(envelope.options),
    orderingKey: null,
    expiresAt: expiresMs === null ? null : iso(expiresMs),
    ...shownPayload({
      body: envelope?.body.slice() ?? NO_BYTES,
      options: envelope?.options.slice() ?? NO_BYTES,
      redactedArgs: null,
      redactedKwargs: null,
    }),
    history: [...record.history],
  };
}

import type {
  DeadLetterDetails,
  DeadLetterPage,
  ReadModel,
  Stats,
  TaskDetails,
} from '../../admin/read-model.ts';
import { TASK_STATES, type TaskState } from '../../ledger/ledger.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import type { OutboxRecord } from './memory-outbox-guards.ts';
import type { MemoryOutboxStore } from './memory-outbox-store.ts';
import type { TaskRecord } from './memory-record.ts';

const iso = (ms: number): string => new Date(ms).toISOString();

/** What CLI and dashboard see of the stores in RAM. */
export class MemoryReadModel implements ReadModel {
  readonly #ledger: MemoryLedger;
  readonly #outbox: MemoryOutboxStore | null;

  constructor(ledger: MemoryLedger, outbox: MemoryOutboxStore | null = null) {
    this.#ledger = ledger;
    this.#outbox = outbox;
  }

  async stats(top: number): Promise<Stats> {
    const rows = [...(this.#outbox?.rows.values() ?? [])];
    const pending = rows.filter(row => row.state === 'pending');
    const oldestMs = Math.min(...pending.map(row => row.createdMs));
    const tasks = this.#countStates();
    return {
      queueDepth: rows.length,
      dlqCount: tasks.dead + (this.#outbox?.deadLetters.size ?? 0),
      oldestPendingSeconds:
        pending.length === 0 ? null : (this.#ledger.state.nowMs - oldestMs) / 1000,
      outbox: {
        pending: pending.length,
        claimed: rows.length - pending.length,
        sent: 0,
        unsupported: 0,
      },
      tasks,
      queues: this.#countQueues(),
      topFailing: this.#topFailing(top),
      workers: [...this.#ledger.state.workers.values()].filter(worker => !worker.isClosed).length,
    };
  }

  async listDeadLetters(page: {
    readonly limit: number;
    readonly cursor: string | null;
  }): Promise<DeadLetterPage> {
    const start = Number(page.cursor ?? 0);
    const all = this.#deadLetters();
    const items = all.slice(start, start + page.limit);
    const next = start + items.length;
    return { items, next: next < all.length ? String(next) : null };
  }

  async showDeadLetter(id: string): Promise<DeadLetterDetails | null> {
    return this.#deadLetters().find(letter => letter.id === id) ?? null;
  }

  async inspect(id: string): Promise<TaskDetails | null> {
    const record = this.#ledger.state.records.get(id);
    if (record !== undefined) return taskDetails(record);
    const row = [...(this.#outbox?.rows.values() ?? [])].find(({ envelope }) => envelope.id === id);
    return row === undefined ? null : pendingDetails(row);
  }

  async recent(limit: number): Promise<readonly TaskDetails[]> {
    const newest = this.#records().sort((a, b) => b.createdMs - a.createdMs || b.order - a.order);
    return newest.slice(0, limit).map(taskDetails);
  }

  #records(): TaskRecord[] {
    return [...this.#ledger.state.records.values()];
  }

  #deadLetters(): DeadLetterDetails[] {
    const ofWorkers = this.#records()
      .filter(record => record.state === 'dead')
      .map(workerLetter);
    const ofRelays = [...(this.#outbox?.deadLetters ?? [])].map(([id, row]) =>
      relayLetter(id, row),
    );
    return [...ofWorkers, ...ofRelays].sort((a, b) => b.deadAt.localeCompare(a.deadAt));
  }

  #countStates(): Record<TaskState, number> {
    const counts = Object.fromEntries(TASK_STATES.map(state => [state, 0])) as Record<
      TaskState,
      number
    >;
    for (const record of this.#records()) counts[record.state] += 1;
    for (const [ending, count] of this.#ledger.state.forgotten) {
      counts[ending === 'done' || ending === 'discarded' ? 'done' : 'cancelled'] += count;
    }
    return counts;
  }

  #countQueues(): Stats['queues'] {
    const queues = new Map<string, { queue: string; waiting: number; running: number }>();
    for (const { envelope, state } of this.#records()) {
      if (envelope === null || (state !== 'waiting' && state !== 'running')) continue;
      const counts = queues.get(envelope.queue) ?? {
        queue: envelope.queue,
        waiting: 0,
        running: 0,
      };
      counts[state] += 1;
      queues.set(envelope.queue, counts);
    }
    return [...queues.values()].sort((a, b) => a.queue.localeCompare(b.queue));
  }

  #topFailing(top: number): Stats['topFailing'] {
    const failures = new Map<string, number>();
    for (const record of this.#records()) {
      if (record.failures === 0) continue;
      const name = record.envelope?.name ?? '';
      failures.set(name, (failures.get(name) ?? 0) + record.failures);
    }
    const all = [...failures].map(([name, count]) => ({ name, failures: count }));
    return all.sort((a, b) => b.failures - a.failures).slice(0, top);
  }
}

function taskDetails(record: TaskRecord): TaskDetails {
  const { id, state, epoch, failures, crashes, envelope } = record;
  const createdAt = iso(record.createdMs);
  const history = [...record.history];
  return {
    id,
    name: envelope?.name ?? '',
    queue: envelope?.queue ?? '',
    state,
    epoch,
    failures,
    crashes,
    createdAt,
    history,
  };
}

function pendingDetails({ envelope, createdMs }: OutboxRecord): TaskDetails {
  const { id, name, queue } = envelope;
  return {
    id,
    name,
    queue,
    state: 'pending',
    epoch: 0,
    failures: 0,
    crashes: 0,
    createdAt: iso(createdMs),
    history: [],
  };
}

const NO_BYTES = new Uint8Array();

function workerLetter(record: TaskRecord): DeadLetterDetails {
  const { id, envelope, version } = record;
  return {
    id,
    name: envelope?.name ?? '',
    queue: envelope?.queue ?? '',
    where: 'worker',
    reason: record.why ?? '',
    error: record.error?.message ?? '',
    deadAt: iso(record.endedMs),
    version,
    body: envelope?.body.slice() ?? NO_BYTES,
    options: envelope?.options.slice() ?? NO_BYTES,
    history: [...record.history],
  };
}

function relayLetter(id: string, { envelope, errors, version }: OutboxRecord): DeadLetterDetails {
  const last = errors.at(-1);
  return {
    id,
    name: envelope.name,
    queue: envelope.queue,
    where: 'relay',
    reason: last?.message ?? '',
    error: last?.message ?? '',
    deadAt: iso(last?.atMs ?? 0),
    version,
    body: envelope.body.slice(),
    options: envelope.options.slice(),
    history: errors.map(({ atMs, message }) => ({
      at: iso(atMs),
      step: 'failed',
      epoch: 0,
      error: { type: 'relay', message, traceback: '' },
    })),
  };
}

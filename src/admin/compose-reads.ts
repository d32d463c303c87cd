import type { ControlStore } from '../ledger/control-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import { queueDepthOf, type OutboxEntry, type OutboxReads } from '../outbox/outbox-reads.ts';
import { type ReadModel, type Stats } from './read-model.ts';
import {
  compareLetters,
  cursorAfter,
  type DeadLetterDetails,
  type Failing,
  type LetterPageRequest,
  type DeadLetterPage,
  type TaskDetails,
} from '../ledger/dead-letter.ts';

/** One read model over an outbox and a ledger, whether they are one database or two stores. */
export function composeReads(
  outbox: OutboxReads,
  ledger: LedgerReads,
  control: Pick<ControlStore, 'paused' | 'consumers'>,
): ReadModel {
  return {
    stats: top => readStats({ outbox, ledger, control }, top),
    queues: async () => {
      const { queues: ofOutbox } = await outbox.sample(0);
      const { queues: ofLedger } = await ledger.sample(0);
      return joinQueues(ofOutbox, ofLedger, await readOrders(control));
    },
    listDeadLetters: page => listLetters(outbox, ledger, page),
    showDeadLetter: async id => (await ledger.showDead(id)) ?? (await outbox.showDeadLetter(id)),
    inspect: id => inspect(outbox, ledger, id),
    recent: async limit => {
      const pending = (await outbox.recent(limit)).map(pendingTask);
      const known = await ledger.recent(limit);
      // A row may move on between the two reads: the ledger, which was read later, is right.
      const ids = new Set(known.map(({ id }) => id));
      const all = [...known, ...pending.filter(({ id }) => !ids.has(id))];
      return all.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1)).slice(0, limit);
    },
  };
}

interface Sources {
  readonly outbox: OutboxReads;
  readonly ledger: LedgerReads;
  readonly control: Pick<ControlStore, 'paused' | 'consumers'>;
}

async function readStats({ outbox, ledger, control }: Sources, top: number): Promise<Stats> {
  const rows = await outbox.sample(top);
  const tasks = await ledger.sample(top);
  const { open, oldest } = await ledger.openChords(Math.max(1, top));
  const { pending, claimed, sent, unsupported } = rows;
  const queues = joinQueues(rows.queues, tasks.queues, await readOrders(control));
  return {
    queueDepth: queueDepthOf(rows),
    scheduled: rows.scheduled,
    backoff: rows.backoff,
    deferred: rows.deferred,
    dlqCount: rows.deadLetters + tasks.tasks.dead,
    dlq: { outbox: rows.deadLetters, worker: tasks.tasks.dead },
    oldestPendingSeconds: rows.oldestPendingMs === null ? null : rows.oldestPendingMs / 1_000,
    outbox: { pending, claimed, sent, unsupported },
    tasks: tasks.tasks,
    queues: queues.filter(row => row.pending + row.waiting + row.running > 0 || row.isPaused),
    totals: await ledger.totals(),
    topFailing: mostFailing([...rows.topFailing, ...tasks.topFailing], top),
    workers: tasks.workers,
    chords: {
      open,
      oldestSeconds: oldest[0] === undefined ? null : oldest[0].ageMs / 1_000,
      oldest: oldest.slice(0, top),
    },
  };
}

interface Orders {
  readonly paused: ReadonlySet<string>;
  readonly consumers: ReadonlyMap<string, number>;
}

async function readOrders(control: Sources['control']): Promise<Orders> {
  const consumers = new Map<string, number>();
  for (const queue of (await control.consumers()).flatMap(({ queues }) => queues))
    consumers.set(queue, (consumers.get(queue) ?? 0) + 1);
  return { paused: new Set(await control.paused()), consumers };
}

function joinQueues(
  ofOutbox: readonly { readonly queue: string; readonly rows: number }[],
  ofLedger: readonly {
    readonly queue: string;
    readonly waiting: number;
    readonly running: number;
  }[],
  { paused, consumers }: Orders,
): Stats['queues'] {
  const filled = [...ofOutbox, ...ofLedger].map(({ queue }) => queue);
  const names = new Set([...filled, ...paused, ...consumers.keys()]);
  return [...names].sort().map(queue => {
    const { waiting = 0, running = 0 } = ofLedger.find(row => row.queue === queue) ?? {};
    const pending = ofOutbox.find(row => row.queue === queue)?.rows ?? 0;
    const isPaused = paused.has(queue);
    return { queue, pending, waiting, running, isPaused, consumers: consumers.get(queue) ?? 0 };
  });
}

function mostFailing(all: readonly Failing[], top: number): readonly Failing[] {
  const sums = new Map<string, number>();
  for (const { name, failures } of all) sums.set(name, (sums.get(name) ?? 0) + failures);
  const sorted = [...sums].map(([name, failures]) => ({ name, failures }));
  sorted.sort((a, b) => b.failures - a.failures || (a.name < b.name ? -1 : 1));
  return sorted.slice(0, top);
}

/**
 * Both stores return a whole page after the same cursor; the first `limit` of the two make the page. The new cursor
 * is the position of its last letter, so the rest comes with the next page, whichever store it is in.
 */
async function listLetters(
  outbox: OutboxReads,
  ledger: LedgerReads,
  page: LetterPageRequest,
): Promise<DeadLetterPage> {
  const ofRelay = await outbox.listDeadLetters(page);
  const ofWorker = await ledger.listDead(page);
  const sign = page.order === 'newest' ? -1 : 1;
  const all = [...ofRelay.items, ...ofWorker.items];
  all.sort((a, b) => sign * compareLetters(a, b));
  const items = all.slice(0, page.limit);
  const last = items.at(-1);
  const isMore = all.length > page.limit || ofRelay.next !== null || ofWorker.next !== null;
  return { items, next: isMore && last ? cursorAfter(last) : null };
}

async function inspect(
  outbox: OutboxReads,
  ledger: LedgerReads,
  id: string,
): Promise<TaskDetails | null> {
  // In the order a task moves: a store that is read later may have it from the one before.
  const row = await outbox.find(id);
  const letter = row === null ? await outbox.showDeadLetter(id) : null;
  const known = await ledger.inspect(id);
  if (known !== null) return known;
  if (row !== null) return pendingTask(row);
  return letter === null ? null : deadTask(letter);
}

function pendingTask({ id, name, queue, retries, createdAt }: OutboxEntry): TaskDetails {
  return {
    id,
    name,
    queue,
    state: 'pending',
    epoch: 0,
    failures: retries,
    crashes: 0,
    createdAt,
    history: [],
  };
}

function deadTask({ id, name, queue, createdAt, history }: DeadLetterDetails): TaskDetails {
  const failures = history.filter(({ error }) => error !== undefined).length;
  return { id, name, queue, state: 'dead', epoch: 0, failures, crashes: 0, createdAt, history };
}

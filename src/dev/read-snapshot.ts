import type { ReadModel } from '../admin/read-model.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import { toText } from '../task/json.ts';
import type { Child } from '../worker/supervisor.ts';
import { journeyOf } from './journey.ts';
import type { Shop } from './shop/shop.ts';
import type { ProgressView, Snapshot, TaskView } from './view.ts';

export interface SnapshotSource {
  readonly outboxReads: Pick<OutboxReads, 'recent'>;
  readonly reads: ReadModel;
  readonly ledgerReads: Pick<LedgerReads, 'moments'>;
  /** The name of the database on the page; contains no password. */
  readonly database: string;
  readonly children: () => readonly Child[];
  readonly isDraining: () => boolean;
  readonly shop: Shop | null;
  /** There is a redactor, but it does not cover progress: only its steps are shown. */
  readonly isRedacted: boolean;
}

/** As many as a person looks at. */
const SHOWN = 30;
/** How far back to search for a running task: one with more newer tasks than this is not found. */
const MOST_RECENT = 200;

/** Reads everything the page shows. */
export async function readSnapshot(source: SnapshotSource): Promise<Snapshot> {
  const { outboxReads, reads, ledgerReads, shop, database } = source;
  const stats = await reads.stats(0);
  const recent = await reads.recent(SHOWN);
  const ids = recent.map(task => task.id);
  const moments = new Map((await ledgerReads.moments(ids)).map(moment => [moment.id, moment]));
  // Times are absolute, so that a task that only waits looks the same in every snapshot.
  const rows = await outboxReads.recent(SHOWN);
  const pending = new Map(rows.map(({ id, availableAt }) => [id, Date.parse(availableAt)]));
  const orders = await shop?.describe(ids);
  const tasks = recent.map((task): TaskView => {
    const moment = moments.get(task.id);
    const order = orders?.get(task.id);
    const dueMs = moment?.dueMs ?? pending.get(task.id) ?? null;
    return {
      id: task.id,
      name: task.name,
      title: order?.title ?? null,
      receipts: order?.receipts ?? null,
      state: task.state,
      epoch: task.epoch,
      crashes: task.crashes,
      failures: task.failures,
      stations: journeyOf(task, dueMs),
      progress: shownProgress(readProgress(moment?.checkpoint ?? null), source.isRedacted),
      deadVersion: task.state === 'dead' ? (moment?.version ?? null) : null,
    };
  });
  const { waiting, running, done, dead } = stats.tasks;
  const counts = {
    pending: stats.outbox.pending + stats.outbox.claimed,
    waiting,
    running,
    done,
    dead,
  };
  const owners = [...moments.values()].map(({ process }) => process);
  const workers = source.children().map(({ pid, process }) => ({
    pid,
    running: owners.filter(owner => owner === process).length,
  }));
  return { isDraining: source.isDraining(), database, counts, workers, tasks };
}

/** The newest shown task that a child of ours is running, and that child. */
export async function findBusyChild(source: SnapshotSource): Promise<Child | null> {
  const recent = await source.reads.recent(MOST_RECENT);
  const running = recent.filter(({ state }) => state === 'running').map(({ id }) => id);
  const moments = await source.ledgerReads.moments(running);
  for (const id of running) {
    const owner = moments.find(moment => moment.id === id)?.process;
    const child = source.children().find(({ process }) => process === owner);
    if (child) return child;
  }
  return null;
}

/** Longer progress is for the handler, not for the page. */
const MAX_PROGRESS = 160;

function shownProgress(progress: ProgressView | null, isRedacted: boolean): ProgressView | null {
  return isRedacted && progress?.kind === 'text' ? { kind: 'text', text: '[hidden]' } : progress;
}

function readProgress(bytes: Uint8Array | null): ProgressView | null {
  if (bytes === null) return null;
  const text = toText(bytes);
  if (text.length > 4_096) return { kind: 'text', text: `${text.slice(0, MAX_PROGRESS)}…` };
  const { step, of, label } = (JSON.parse(text) ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof step === 'number' && typeof of === 'number' && typeof label === 'string') {
    return { kind: 'steps', step, of, label: label.slice(0, MAX_PROGRESS) };
  }
  return { kind: 'text', text: text.slice(0, MAX_PROGRESS) };
}

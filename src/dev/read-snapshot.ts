import type { ReadModel } from '../admin/read-model.ts';
import type { SqlDatabase, SqlRow } from '../adapters/postgres/sql-database.ts';
import { toText } from '../task/json.ts';
import type { Child } from '../worker/supervisor.ts';
import { journeyOf } from './journey.ts';
import type { Shop } from './shop/shop.ts';
import type { ProgressView, Snapshot, TaskView } from './view.ts';

export interface SnapshotSource {
  readonly db: SqlDatabase;
  readonly reads: ReadModel;
  /** What to call the database on the page; holds no password. */
  readonly database: string;
  readonly children: () => readonly Child[];
  readonly isDraining: () => boolean;
  readonly shop: Shop | null;
}

/** As many as a person looks at. */
const SHOWN = 30;

// What the live view needs beyond the read model: where a task runs, when it is due, how far it is.
// Times are absolute, so that a task which only waits looks the same at every look.
const MOMENTS = `
select t.id, t.version, w.process, t.checkpoint,
  (extract(epoch from t.due) * 1000)::bigint::text as due_ms
from outlast_task t left join outlast_worker w on w.id = t.owner
where t.id = any($1::text[]) and t.state in ('waiting', 'running', 'dead')
union all
select task_id, 0, null, null, (extract(epoch from available_at) * 1000)::bigint::text
from outlast_outbox where task_id = any($1::text[])`;

/** Reads everything the page shows. */
export async function readSnapshot(source: SnapshotSource): Promise<Snapshot> {
  const { db, reads, shop, database } = source;
  const stats = await reads.stats(0);
  const recent = await reads.recent(SHOWN);
  const ids = recent.map(task => task.id);
  const moments = new Map((await db.query(MOMENTS, [ids])).map(row => [row['id'], row]));
  const orders = await shop?.describe(ids);
  const tasks = recent.map((task): TaskView => {
    const moment = moments.get(task.id);
    const order = orders?.get(task.id);
    const dueMs = moment?.['due_ms'];
    return {
      id: task.id,
      name: task.name,
      title: order?.title ?? null,
      receipts: order?.receipts ?? null,
      state: task.state,
      epoch: task.epoch,
      crashes: task.crashes,
      failures: task.failures,
      stations: journeyOf(task, typeof dueMs === 'string' ? Number(dueMs) : null),
      progress: readProgress(moment),
      deadVersion:
        task.state === 'dead' ? ((moment?.['version'] as number | undefined) ?? null) : null,
    };
  });
  const { waiting, running, done, dead } = stats.tasks;
  const counts = { pending: stats.queueDepth, waiting, running, done, dead };
  const owners = [...moments.values()].map(moment => moment['process']);
  const workers = source.children().map(({ pid, process }) => ({
    pid,
    running: owners.filter(owner => owner === process).length,
  }));
  return { isDraining: source.isDraining(), database, counts, workers, tasks };
}

/** The newest shown task that a child of ours is running, and that child. */
export async function findBusyChild(source: SnapshotSource): Promise<Child | null> {
  const rows = await source.db.query(
    `select w.process from outlast_task t join outlast_worker w on w.id = t.owner
     where t.state = 'running' order by t.created_at desc limit 100`,
  );
  const children = source.children();
  for (const row of rows) {
    const child = children.find(({ process }) => process === row['process']);
    if (child) return child;
  }
  return null;
}

/** Longer progress is for the handler, not for the page. */
const MAX_PROGRESS = 160;

function readProgress(moment: SqlRow | undefined): ProgressView | null {
  const bytes = moment?.['checkpoint'];
  if (!(bytes instanceof Uint8Array)) return null;
  const text = toText(bytes);
  if (text.length > 4_096) return { kind: 'text', text: `${text.slice(0, MAX_PROGRESS)}…` };
  const { step, of, label } = (JSON.parse(text) ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof step === 'number' && typeof of === 'number' && typeof label === 'string') {
    return { kind: 'steps', step, of, label: label.slice(0, MAX_PROGRESS) };
  }
  return { kind: 'text', text: text.slice(0, MAX_PROGRESS) };
}

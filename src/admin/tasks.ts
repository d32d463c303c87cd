import { type Limit, type LimitBook, readAdmissionOf } from '../admission/limits.ts';
import type { AdmissionStore } from '../admission/admission-store.ts';
import type { ControlStore } from '../ledger/control-store.ts';
import type { TaskLine } from '../ledger/task-line.ts';
import { type InspectSources, findTask } from './inspect-task.ts';
import { type TaskSources, listTasks } from './list-tasks.ts';
import { readFilter } from './task-filter.ts';
import { type WhyAnswer, explain } from './why.ts';

/** What an answer depends on besides the stores. */
export interface WhyConfig {
  /** A broker stands between outbox and ledger. */
  readonly hasBroker: boolean;
  readonly book: LimitBook;
}

export interface WhySources extends InspectSources {
  readonly control: Pick<ControlStore, 'paused' | 'consumers'>;
  readonly admission: Pick<AdmissionStore, 'figures'>;
}

/** Why a task is not running, or how it went. */
export async function whyTask(
  sources: WhySources,
  id: string,
  { hasBroker, book }: WhyConfig,
): Promise<WhyAnswer> {
  const { row, record } = await findTask(sources, id);
  const letter = (row ?? record) ? null : await sources.outboxReads.showDeadLetter(id);
  const limits = limitsOf(row ?? record, book);
  return explain({
    id,
    row,
    record,
    letter,
    hasBroker,
    limits,
    paused: await sources.control.paused(),
    consumers: await sources.control.consumers(),
    figures: limits.length === 0 ? [] : await sources.admission.figures(),
  });
}

type Limited = Pick<TaskLine, 'name' | 'queue'> & { readonly options: Uint8Array };

function limitsOf(task: Limited | null, book: LimitBook): readonly Limit[] {
  if (task === null) return [];
  const { name, queue } = task;
  return book.of({ name, queue, ...readAdmissionOf(task.options) });
}

/** A run, and the process that it is in. */
export interface InflightTask extends TaskLine {
  /** Null: the worker does not report any more. */
  readonly host: string | null;
  readonly pid: number | null;
  readonly forMs: number | null;
}

/** One page of the tasks that run now. */
export interface InflightPage {
  readonly items: readonly InflightTask[];
  readonly next: string | null;
}

export interface InflightSources extends TaskSources {
  readonly control: Pick<ControlStore, 'consumers'>;
}

/** The tasks that run now, with their workers. `nowMs` is the clock of this process. */
export async function inflightTasks(
  sources: InflightSources,
  page: { readonly limit: number; readonly cursor: string | null },
  nowMs: number,
): Promise<InflightPage> {
  const filter = readFilter({ state: 'running' });
  const { items, next } = await listTasks(sources, { ...page, filter, nowMs });
  const workers = new Map((await sources.control.consumers()).map(one => [one.worker, one]));
  return {
    items: items.map(task => {
      const owner = workers.get(task.worker ?? '');
      const forMs =
        task.startedAt === null ? null : Math.max(0, nowMs - Date.parse(task.startedAt));
      return { ...task, host: owner?.host ?? null, pid: owner?.pid ?? null, forMs };
    }),
    next,
  };
}

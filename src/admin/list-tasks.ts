import { cursorAfter, type DeadLetterSummary } from '../ledger/dead-letter.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import {
  wrongCursor,
  type LedgerSection,
  type Position,
  type Slice,
  type TaskLine,
} from '../ledger/task-line.ts';
import type { OutboxEntry, OutboxReads } from '../outbox/outbox-reads.ts';
import { readLetterCursor, readRowCursor } from './admin-options.ts';
import type { ReadModel } from './read-model.ts';
import type { ReadFilter, TaskListState } from './task-filter.ts';

/** One page of a list of tasks. */
export interface TaskPage {
  readonly items: readonly TaskLine[];
  /** Where the next page begins; null: this was the last. */
  readonly next: string | null;
  /** How many tasks were looked at. A page is short where many are looked at and few match. */
  readonly examined: number;
}

export interface TaskSources {
  readonly outboxReads: Pick<OutboxReads, 'list'>;
  readonly ledgerReads: Pick<LedgerReads, 'walk'>;
  readonly reads: Pick<ReadModel, 'listDeadLetters'>;
}

/** What happens now comes first. */
const SECTIONS = ['running', 'waiting', 'pending', 'dead', 'over'] as const;
type Section = (typeof SECTIONS)[number];

/** One read of a store, and all reads of a page. */
const SLICE = 500;
const MOST_EXAMINED = 10_000;

const SECTION_OF: Readonly<Record<TaskListState, Section>> = {
  running: 'running',
  waiting: 'waiting',
  pending: 'pending',
  dead: 'dead',
  done: 'over',
  cancelled: 'over',
};

interface Cursor {
  readonly section: Section;
  readonly after: Position | null;
}

export interface TaskPageRequest {
  readonly filter: ReadFilter;
  readonly limit: number;
  readonly cursor: string | null;
  /** The clock that ages are counted by. */
  readonly nowMs: number;
}

/**
 * A page of tasks of all stores. Stores are read in slices, each from an index, and the filter is applied here, so that it
 * means the same in every store. A page ends when it is full, or when many tasks were looked at.
 */
export async function listTasks(sources: TaskSources, request: TaskPageRequest): Promise<TaskPage> {
  const { filter, limit, nowMs } = request;
  const sections = filter.state === null ? SECTIONS : [SECTION_OF[filter.state]];
  const start = request.cursor === null ? null : readCursor(request.cursor);
  if (start !== null && !sections.includes(start.section)) throw wrongCursor();
  const items: TaskLine[] = [];
  let examined = 0;
  for (const section of sections.slice(start === null ? 0 : sections.indexOf(start.section))) {
    let after = start?.section === section ? start.after : null;
    for (;;) {
      const slice = await readSlice(sources, { section, after, filter });
      for (const { task, at } of slice) {
        examined += 1;
        after = at;
        if (filter.matches(task, nowMs)) items.push(task);
        if (items.length === limit || examined >= MOST_EXAMINED)
          return { items, next: writeCursor({ section, after }), examined };
      }
      if (slice.length < SLICE) break;
    }
  }
  return { items, next: null, examined };
}

interface SliceRequest extends Cursor {
  readonly filter: ReadFilter;
}

async function readSlice(sources: TaskSources, request: SliceRequest): Promise<Slice> {
  const { section, after, filter } = request;
  switch (section) {
    case 'pending': {
      const cursor = readRowCursor(after?.[0]);
      const { items } = await sources.outboxReads.list({ limit: SLICE, cursor });
      return items.map(entry => ({ task: lineOfRow(entry), at: [entry.row] }));
    }
    case 'dead': {
      const cursor = readLetterCursor(after?.[0]);
      const { name: taskName } = filter;
      const page = { limit: SLICE, cursor, order: 'newest', taskName } as const;
      const { items } = await sources.reads.listDeadLetters(page);
      return items.map(letter => ({ task: lineOfLetter(letter), at: [cursorAfter(letter)] }));
    }
    default:
      return await walk(sources, { ...request, section });
  }
}

async function walk(
  { ledgerReads }: TaskSources,
  { section, after, filter }: SliceRequest & { readonly section: LedgerSection },
): Promise<Slice> {
  return await ledgerReads.walk({ section, queue: filter.queue, after, limit: SLICE });
}

const NOTHING = {
  epoch: 0,
  crashes: 0,
  dueAt: null,
  startedAt: null,
  worker: null,
  endedAt: null,
  reason: null,
} as const;

export function lineOfRow(row: OutboxEntry): TaskLine {
  const { id, name, queue, retries, createdAt, tenant, orderingKey } = row;
  return {
    ...NOTHING,
    id,
    name,
    queue,
    createdAt,
    tenant,
    orderingKey,
    state: 'pending',
    failures: retries,
    dueAt: row.availableAt,
    error: row.lastError,
  };
}

export function lineOfLetter(letter: DeadLetterSummary): TaskLine {
  const { id, name, queue, createdAt, tenant, orderingKey, reason, error } = letter;
  return {
    ...NOTHING,
    id,
    name,
    queue,
    createdAt,
    tenant,
    orderingKey,
    reason,
    error,
    state: 'dead',
    failures: 0,
    endedAt: letter.deadAt,
  };
}

const writeCursor = ({ section, after }: Cursor): string =>
  Buffer.from(JSON.stringify([section, ...(after ?? [])])).toString('base64url');

/** Longer ones are not ours. */
const LONGEST_CURSOR = 8_192;

function readCursor(text: string): Cursor {
  const parts = text.length > LONGEST_CURSOR ? [] : decoded(text);
  const section = SECTIONS.find(one => one === parts[0]);
  if (section === undefined) throw wrongCursor();
  return { section, after: parts.length === 1 ? null : parts.slice(1) };
}

function decoded(text: string): readonly string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    return Array.isArray(parts) && parts.every(part => typeof part === 'string') ? parts : [];
  } catch {
    return [];
  }
}

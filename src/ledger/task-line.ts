import type { Ending, LifeState } from '../result/result-store.ts';
import { outlastError } from '../errors/error.ts';
import { hasMark } from '../task/marks.ts';
import { toText } from '../task/json.ts';
import type { HistoryEntry } from './dead-letter.ts';

/** One task of a list. */
export interface TaskLine {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: LifeState;
  readonly epoch: number;
  /** Failed publishes of a row in the outbox; failed runs of a task in the ledger. */
  readonly failures: number;
  readonly crashes: number;
  readonly createdAt: string;
  /** From when on it may be published or begun; null: it does not wait. */
  readonly dueAt: string | null;
  /** Of the run under way. */
  readonly startedAt: string | null;
  /** The incarnation that runs it. */
  readonly worker: string | null;
  readonly endedAt: string | null;
  /** Why it is dead, as a code. */
  readonly reason: string | null;
  /** The last error that its store has. */
  readonly error: string | null;
  readonly tenant: string | null;
  /** Known as long as it is in the outbox, or a dead letter of it. */
  readonly orderingKey: string | null;
}

/** The lists that a ledger has. `over`: done, or cancelled. Dead tasks are listed as letters. */
export type LedgerSection = 'running' | 'waiting' | 'over';

/** A position in a list, in the words of the store that made it. */
export type Position = readonly string[];

export interface WalkRequest {
  readonly section: LedgerSection;
  /** A store that keeps waiting tasks by queue reads only this one; others may return all. */
  readonly queue: string | null;
  /** The position of the last item of the slice before; null: from the beginning. */
  readonly after: Position | null;
  readonly limit: number;
}

/** Fewer items than requested: the list ends here. */
export type Slice = readonly { readonly task: TaskLine; readonly at: Position }[];

/** All that a ledger knows of a task. */
export interface TaskRecordView extends TaskLine {
  readonly ending: Ending | null;
  readonly history: readonly HistoryEntry[];
  /** As people may see it; empty: it is not kept any more. */
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly isRedacted: boolean;
  readonly result: Uint8Array | null;
  /** Crashed so often that no two such tasks run at the same time. */
  readonly isSuspect: boolean;
  /** A worker that had no handler for it has set it aside. */
  readonly refusedBy: string | null;
  /** The clock of the store. */
  readonly nowMs: number;
}

/** Whom a task is for, by its options. Lists read none that are longer than 64 KB: they carry copies of large arguments. */
export function tenantIn(options: Uint8Array): string | null {
  if (!hasMark(options, '"tenant":')) return null;
  try {
    const { tenant } = JSON.parse(toText(options)) as { readonly tenant?: unknown };
    return typeof tenant === 'string' ? tenant : null;
  } catch {
    return null;
  }
}

/** When the run under way began, and where. */
export function startOf(
  history: readonly HistoryEntry[],
): { readonly at: string; readonly worker: string | null } | null {
  const begun = history.findLast(({ step }) => step === 'begun');
  return begun === undefined ? null : { at: begun.at, worker: begun.worker ?? null };
}

/** A position that a person has typed: each part must have its form. */
export function checkPosition(after: Position, forms: readonly RegExp[]): void {
  const isWell =
    after.length === forms.length && forms.every((form, at) => form.test(after[at] ?? ''));
  if (!isWell) throw wrongCursor();
}

export function wrongCursor(): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: 'the cursor is not where a page of tasks ended',
    hint: 'Give `next` of the page before, as it was.',
    fields: { option: 'cursor' },
  });
}

import type { OpenChord } from '../ledger/open-chord.ts';
import type { LifeState } from '../result/result-store.ts';
import type { Where } from '../telemetry/events.ts';

/** What the CLI and the dashboard see, made of what outbox and ledger show. Reads only. */
export interface ReadModel {
  stats(top: number): Promise<Stats>;
  /** Every queue in which something is, from which a worker takes, or that is paused. */
  queues(): Promise<Stats['queues']>;
  /** Letters of relay and worker in one list. */
  listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage>;
  showDeadLetter(id: string): Promise<DeadLetterDetails | null>;
  inspect(id: string): Promise<TaskDetails | null>;
  /** Newest first; for the live view of `dev`. */
  recent(limit: number): Promise<readonly TaskDetails[]>;
}

/** The cursor is `next` of the page before; null begins. */
export interface PageRequest {
  readonly limit: number;
  readonly cursor: string | null;
}

export interface LetterPageRequest extends PageRequest {
  /** By the instant of death. */
  readonly order: 'newest' | 'oldest';
  /** A glob with `*` and `?`; null: every task. */
  readonly taskName: string | null;
}

export interface Stats {
  readonly queueDepth: number;
  readonly dlqCount: number;
  readonly oldestPendingSeconds: number | null;
  readonly outbox: {
    readonly pending: number;
    readonly claimed: number;
    readonly sent: number;
    /** Rows in a format this version does not know: they wait for a newer relay. */
    readonly unsupported: number;
  };
  /** `expired`: never begun, because `expires` or `deadline` had passed. `purged`: dead tasks that somebody had deleted. */
  readonly tasks: Readonly<
    Record<'waiting' | 'running' | 'done' | 'dead' | 'cancelled' | 'expired' | 'purged', number>
  >;
  /** Those in which something is, and paused ones. `pending` are rows of the outbox; estimated where there are more than 100,000. */
  readonly queues: readonly {
    readonly queue: string;
    readonly pending: number;
    readonly waiting: number;
    readonly running: number;
    /** Workers take nothing from it. */
    readonly isPaused: boolean;
    /** Workers that take from it, or would if it were not paused. */
    readonly consumers: number;
  }[];
  readonly topFailing: readonly Failing[];
  readonly workers: number;
  /** Chords that wait for parts of their headers; the oldest of them. */
  readonly chords: {
    readonly open: number;
    readonly oldestSeconds: number | null;
    readonly oldest: readonly OpenChord[];
  };
}

export interface Failing {
  readonly name: string;
  readonly failures: number;
}

export interface DeadLetterSummary {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly where: Where;
  readonly reason: string;
  readonly error: string;
  /** ISO 8601 in UTC, as precise as the store's clock: the cursor is made of it. */
  readonly deadAt: string;
  readonly version: number;
}

export interface DeadLetterPage {
  readonly items: readonly DeadLetterSummary[];
  readonly next: string | null;
}

export interface DeadLetterDetails extends DeadLetterSummary {
  readonly createdAt: string;
  /** After this instant it cannot be retried any more. */
  readonly expiresAt: string | null;
  /** True: body and options are what people may see; the original is kept for a retry. */
  readonly isRedacted: boolean;
  /** The bytes as they came. */
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly history: readonly HistoryEntry[];
}

export interface HistoryEntry {
  readonly at: string;
  readonly step: string;
  readonly epoch: number;
  readonly worker?: string;
  readonly error?: { readonly type: string; readonly message: string; readonly traceback: string };
}

export interface TaskDetails {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: LifeState;
  readonly epoch: number;
  readonly failures: number;
  readonly crashes: number;
  readonly createdAt: string;
  readonly history: readonly HistoryEntry[];
}

/** Where a letter stands in a list: by the instant of its death, then by id, byte by byte, in every store. */
export interface LetterPlace {
  readonly deadAt: string;
  readonly id: string;
}

/** Where a list goes on after this letter. It is made of the letter alone, so that one cursor serves two stores. */
export function cursorAfter({ deadAt, id }: LetterPlace): string {
  return `${deadAt} ${id}`;
}

export function readCursor(cursor: string): LetterPlace {
  const at = cursor.indexOf(' ');
  return { deadAt: cursor.slice(0, at), id: cursor.slice(at + 1) };
}

/** Below zero: `a` died before `b`. */
export function compareLetters(a: LetterPlace, b: LetterPlace): number {
  const [before, after] = [digitsOf(a), digitsOf(b)];
  if (before !== after) return before < after ? -1 : 1;
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1;
}

/** Stores tell instants with three or six digits: `…00.500Z` and `…00.500000Z` are one. */
const digitsOf = ({ deadAt }: LetterPlace): string => deadAt.replace('Z', '').padEnd(26, '0');

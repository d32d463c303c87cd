import type { LifeState } from '../result/result-store.ts';
import type { Where } from '../telemetry/events.ts';

/** What the CLI and the dashboard see. Reads only. */
export interface ReadModel {
  stats(top: number): Promise<Stats>;
  listDeadLetters(page: PageRequest): Promise<DeadLetterPage>;
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
  readonly tasks: Readonly<Record<'waiting' | 'running' | 'done' | 'dead' | 'cancelled', number>>;
  readonly queues: readonly {
    readonly queue: string;
    readonly waiting: number;
    readonly running: number;
  }[];
  readonly topFailing: readonly { readonly name: string; readonly failures: number }[];
  readonly workers: number;
}

export interface DeadLetterSummary {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly where: Where;
  readonly reason: string;
  readonly error: string;
  readonly deadAt: string;
  readonly version: number;
}

export interface DeadLetterPage {
  readonly items: readonly DeadLetterSummary[];
  readonly next: string | null;
}

export interface DeadLetterDetails extends DeadLetterSummary {
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

import type {
  DeadLetterDetails,
  DeadLetterPage,
  Failing,
  LetterPageRequest,
  PageRequest,
} from '../ledger/dead-letter.ts';

/** The read side of an outbox, for operators. If a task has redacted copies, they are shown instead of its arguments. */
export interface OutboxReads {
  sample(top: number): Promise<OutboxSample>;
  /** Waiting rows, oldest first. The cursor is a row number. */
  list(page: PageRequest): Promise<OutboxPage>;
  /** The newest rows, newest first. */
  recent(limit: number): Promise<readonly OutboxEntry[]>;
  find(id: string): Promise<OutboxEntry | null>;
  /** Rows that could not be published. */
  listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage>;
  showDeadLetter(id: string): Promise<DeadLetterDetails | null>;
}

/** Figures of one moment. */
export interface OutboxSample {
  readonly pending: number;
  readonly claimed: number;
  readonly sent: number;
  /** Rows in a format this version does not know: they wait for a newer relay. */
  readonly unsupported: number;
  readonly deadLetters: number;
  /** Age of the oldest row that is due and still here; null: there is none. */
  readonly oldestPendingMs: number | null;
  /** Rows by queue, in any state; estimated where there are more than 100,000. */
  readonly queues: readonly { readonly queue: string; readonly rows: number }[];
  /** Tasks whose rows and dead letters failed most often, by the sum of their retries. */
  readonly topFailing: readonly Failing[];
}

export interface OutboxEntry {
  readonly row: string;
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: 'pending' | 'claimed' | 'sent';
  /** False: the row is in a format of a newer version, and waits for a newer relay. */
  readonly isSupported: boolean;
  readonly retries: number;
  readonly lastError: string | null;
  readonly createdAt: string;
  readonly availableAt: string;
  readonly orderingKey: string | null;
}

export interface OutboxPage {
  readonly items: readonly OutboxEntry[];
  readonly next: string | null;
}

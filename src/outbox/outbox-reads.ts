import type { DeadLetterDetails, DeadLetterPage, PageRequest } from '../admin/read-model.ts';

/** What people see of an outbox: reads only. Where a task has redacted copies, they are shown instead of its arguments. */
export interface OutboxReads {
  sample(top: number): Promise<OutboxSample>;
  /** Rows that wait, oldest first. */
  list(page: PageRequest): Promise<OutboxPage>;
  find(id: string): Promise<OutboxEntry | null>;
  /** Rows that could not be published, newest death first. */
  listDeadLetters(page: PageRequest): Promise<DeadLetterPage>;
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
  /** Age of the oldest row that is due and still here; null: none is. */
  readonly oldestPendingMs: number | null;
  readonly queues: readonly { readonly queue: string; readonly rows: number }[];
  /** Tasks whose rows failed most often, by the sum of their retries. */
  readonly topFailing: readonly { readonly name: string; readonly failures: number }[];
}

export interface OutboxEntry {
  readonly row: string;
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: 'pending' | 'claimed' | 'sent';
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

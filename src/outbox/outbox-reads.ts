import type {
  DeadLetterDetails,
  DeadLetterPage,
  Failing,
  HistoryEntry,
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
  /** The same with its bytes, and what it waits for. */
  view(id: string): Promise<RowView | null>;
  /** Rows that could not be published. */
  listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage>;
  showDeadLetter(id: string): Promise<DeadLetterDetails | null>;
}

/** Figures of one moment. */
export interface OutboxSample {
  /** In any of the four figures that follow, as far as they are rows. */
  readonly pending: number;
  /** Pending and due now; with tasks that are due in a ledger in the same database. */
  readonly due: number;
  /** Waits for its first moment: a later `eta`. The same of a ledger in the same database. */
  readonly scheduled: number;
  /** Failed before, and waits for the next attempt. The same of a ledger in the same database. */
  readonly backoff: number;
  /** Put off without a failure: an outage, or a limit. */
  readonly deferred: number;
  readonly claimed: number;
  readonly sent: number;
  /** Rows in a format this version does not know: they wait for a newer relay. */
  readonly unsupported: number;
  readonly deadLetters: number;
  /**
   * How long the oldest row that was ever due has been waiting since, whatever was tried meanwhile. Tasks that are due in a
   * ledger in the same database are included. Null: there is none.
   */
  readonly oldestPendingMs: number | null;
  /** Rows by queue, in any state; estimated where there are more than 100,000. */
  readonly queues: readonly { readonly queue: string; readonly rows: number }[];
  /** Tasks whose rows and dead letters failed most often, by the sum of their retries. */
  readonly topFailing: readonly Failing[];
}

/** The live backlog: what could go on at this moment. */
export const queueDepthOf = ({ due, claimed }: Pick<OutboxSample, 'due' | 'claimed'>): number =>
  due + claimed;

/** A row of the outbox, as an operator sees it. */
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
  readonly tenant: string | null;
}

/** All that an outbox knows of a row. */
export interface RowView extends OutboxEntry {
  /** As people may see it. */
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly isRedacted: boolean;
  /** How often relays have had it. */
  readonly claims: number;
  readonly claimedBy: string | null;
  /** The lease of that relay is over. */
  readonly isClaimOver: boolean;
  readonly etaAt: string | null;
  /** The task in front of it under the same ordering key, and whether that is a dead letter which parks the key. */
  readonly behind: { readonly id: string; readonly isParked: boolean } | null;
  /** Relays that have a lease. Relays that move rows into a ledger in the same database need none. */
  readonly relays: number;
  readonly history: readonly HistoryEntry[];
  /** The clock of the store. */
  readonly nowMs: number;
}

/** One page of the outbox. */
export interface OutboxPage {
  readonly items: readonly OutboxEntry[];
  readonly next: string | null;
}

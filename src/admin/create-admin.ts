import type { Consumer, ControlStore } from '../ledger/control-store.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { AdmissionStore, KeyFigures } from '../admission/admission-store.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutboxPage, OutboxReads } from '../outbox/outbox-reads.ts';
import { cancelTask } from '../outbox/cancel-task.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import { safeName } from '../task/names.ts';
import { INTERNALS, type Outlast } from '../wiring/outlast.ts';
import { readLetterCursor, readLimit, readRowCursor } from './admin-options.ts';
import {
  purgeLetters,
  retryAll,
  retryLetter,
  type PurgeOptions,
  type PurgeSummary,
  type RetryAllOptions,
  type RetryStatus,
  type RetrySummary,
} from './dead-letters.ts';
import { resetKey, showKey, type KeyDetails, type ResetStatus } from './idempotency-keys.ts';
import type {
  DeadLetterDetails,
  DeadLetterPage,
  ReadModel,
  Stats,
  TaskDetails,
} from './read-model.ts';

/** What operators do, for the CLI, the dashboard and your own tools. */
export interface Admin {
  stats(options?: { readonly top?: number }): Promise<Stats>;
  /** What is taken, held and waited for under every key of admission that was used lately. */
  admission(): Promise<readonly KeyFigures[]>;
  /** Not null: the store of the ledger is nearly full, and nothing new is pushed or published, limited or not. */
  admissionClosed(): Promise<{ readonly why: string; readonly retryAfterMs: number } | null>;
  readonly outbox: {
    /** Rows that wait for a relay, oldest first. */
    list(options?: { readonly limit?: number; readonly cursor?: string }): Promise<OutboxPage>;
  };
  readonly deadLetters: {
    /** Of relay and worker in one list, newest first; `taskName` is a glob. */
    list(options?: {
      readonly limit?: number;
      readonly cursor?: string;
      readonly taskName?: string;
    }): Promise<DeadLetterPage>;
    /** Where a task has redacted copies of its arguments, they are shown and nothing else. */
    show(id: string): Promise<DeadLetterDetails | null>;
    /** Brings a dead letter back, once: `conflict` when it was not dead any more, `expired` when its time is over. */
    retry(id: string, version?: number): Promise<RetryStatus>;
    /** Brings many back, oldest first. */
    retryAll(options?: RetryAllOptions): Promise<RetrySummary>;
    /** Deletes what is old, for good; at least one age must be given. */
    purge(options: PurgeOptions): Promise<PurgeSummary>;
  };
  readonly queues: {
    /** Every queue in which something is, from which a worker takes, or that is paused. */
    list(): Promise<Stats['queues']>;
    /** Workers take nothing more from it, within a second and whatever restarts; what runs comes to its end. False: it was paused. */
    pause(queue: string): Promise<boolean>;
    /** False: it was not paused. */
    resume(queue: string): Promise<boolean>;
  };
  readonly workers: {
    /** Every living incarnation. */
    list(): Promise<readonly Consumer[]>;
    /** Asks one to end as SIGTERM would, and nobody takes its place. False: no such worker lives. */
    drain(worker: string): Promise<boolean>;
  };
  readonly tasks: {
    inspect(id: string): Promise<TaskDetails | null>;
    cancel(id: string): Promise<'ok' | 'terminal'>;
  };
  readonly idempotency: {
    /** Who has a key, or what came of it. A task's key is its name, `#`, and the key; of free-standing code only the last two. */
    show(key: string): Promise<KeyDetails | null>;
    /** Forgets a result, or a holder that has ended; with `force` also one that is alive, and may have its effect beside the next. */
    reset(key: string, options?: { readonly force?: boolean }): Promise<ResetStatus>;
  };
}

/** The ports an operator works through; outbox and ledger may be different stores. */
export interface AdminStores {
  readonly outbox: OutboxStore;
  readonly outboxReads: OutboxReads;
  readonly ledger: Ledger;
  readonly control: ControlStore;
  readonly ledgerReads: LedgerReads;
  readonly idempotency: IdempotencyStore;
  readonly reads: ReadModel;
  readonly admission: Pick<AdmissionStore, 'figures' | 'pressure'>;
}

/**
 * The operator's side of an instance.
 *
 * @example
 * const { queueDepth } = await createAdmin(outlast).stats();
 */
export function createAdmin(outlast: Pick<Outlast<never>, typeof INTERNALS>): Admin {
  return adminOn(() => outlast[INTERNALS].adminStores());
}

const PAGE = 50;

export function adminOn(stores: () => Promise<AdminStores>): Admin {
  return {
    stats: async options => await (await stores()).reads.stats(options?.top ?? 5),
    admission: async () => await (await stores()).admission.figures(),
    admissionClosed: async () => await (await stores()).admission.pressure(),
    outbox: {
      list: async options => {
        const page = {
          limit: readLimit(options?.limit ?? PAGE),
          cursor: readRowCursor(options?.cursor),
        };
        return await (await stores()).outboxReads.list(page);
      },
    },
    deadLetters: {
      list: async options => {
        const page = {
          limit: readLimit(options?.limit ?? PAGE),
          cursor: readLetterCursor(options?.cursor),
          order: 'newest' as const,
          taskName: options?.taskName ?? null,
        };
        return await (await stores()).reads.listDeadLetters(page);
      },
      show: async id => await (await stores()).reads.showDeadLetter(id),
      retry: async (id, version) => await retryLetter(await stores(), id, version),
      retryAll: async options => await retryAll(await stores(), options ?? {}),
      purge: async options => await purgeLetters(stores, options),
    },
    queues: {
      list: async () => await (await stores()).reads.queues(),
      pause: async queue => await (await stores()).control.pause(safeName(queue, 'queue')),
      resume: async queue => await (await stores()).control.resume(safeName(queue, 'queue')),
    },
    workers: {
      list: async () => await (await stores()).control.consumers(),
      drain: async worker => await (await stores()).control.drain(worker),
    },
    tasks: {
      inspect: async id => await (await stores()).reads.inspect(id),
      cancel: async id => await cancelTask(id, await stores()),
    },
    idempotency: {
      show: async key => await showKey(await stores(), key),
      reset: async (key, options) => await resetKey(await stores(), key, options?.force ?? false),
    },
  };
}

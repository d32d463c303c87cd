import type { Consumer, ControlStore } from '../ledger/control-store.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import { burnReport, type BurnReport } from '../ledger/burn-rate.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import { LimitBook } from '../admission/limits.ts';
import type { AdmissionStore, KeyFigures } from '../admission/admission-store.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutboxPage, OutboxReads } from '../outbox/outbox-reads.ts';
import { cancelTask } from '../outbox/cancel-task.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { FenceRows } from '../recovery/fence-rows.ts';
import { safeName } from '../task/names.ts';
import type { Redact } from '../task/redact.ts';
import { CONTEXT, type Outlast } from '../app/outlast.ts';
import type { Context } from '../context/context.ts';
import { effectDatabases } from '../context/openers.ts';
import { revokeElsewhere } from '../context/revoke-elsewhere.ts';
import { readLetterCursor, readLimit, readRowCursor, readShare } from './admin-options.ts';
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
import type { ReadModel, Stats } from './read-model.ts';
import type { DeadLetterPage } from '../ledger/dead-letter.ts';
import { inspectTask, type TaskInspection } from './inspect-task.ts';
import { listTasks, type TaskPage } from './list-tasks.ts';
import { readFilter, type TaskFilter } from './task-filter.ts';
import { inflightTasks, whyTask, type InflightPage, type WhyConfig } from './tasks.ts';
import type { WhyAnswer } from './why.ts';
import { type ShownLetter, showLetter } from './show-letter.ts';

/** Operations for operators: for the CLI, the dashboard and your own tools. */
export interface Admin {
  stats(options?: { readonly top?: number }): Promise<Stats>;
  /** How fast each objective uses up its budget. `target` replaces that of every success, to try another. */
  slo(options?: { readonly target?: number }): Promise<BurnReport>;
  /** What is used, reserved and waiting under every admission key that was used lately. */
  admission(): Promise<readonly KeyFigures[]>;
  /** Not null: the store of the ledger is nearly full, and nothing new is pushed or published, limited or not. */
  admissionClosed(): Promise<{ readonly why: string; readonly retryAfterMs: number } | null>;
  readonly outbox: {
    /** Rows that wait for a relay, oldest first. */
    list(options?: { readonly limit?: number; readonly cursor?: string }): Promise<OutboxPage>;
  };
  readonly deadLetters: {
    /** Dead letters of relay and worker in one list, newest first; `taskName` is a glob. */
    list(options?: {
      readonly limit?: number;
      readonly cursor?: string;
      readonly taskName?: string;
    }): Promise<DeadLetterPage>;
    /** If a task has redacted copies of its arguments, or there is a redactor, only the copies are shown. */
    show(id: string): Promise<ShownLetter | null>;
    /** Brings a dead letter back, once: `conflict` when it was not dead any more, `expired` when its deadline has passed. */
    retry(id: string, version?: number): Promise<RetryStatus>;
    /** Brings many back, oldest first. */
    retryAll(options?: RetryAllOptions): Promise<RetrySummary>;
    /** Deletes old dead letters for good; at least one age must be given. */
    purge(options: PurgeOptions): Promise<PurgeSummary>;
  };
  readonly queues: {
    /** Every queue that holds tasks, has a consumer, or is paused. */
    list(): Promise<Stats['queues']>;
    /** Within a second workers take nothing more from it, across restarts; runs finish. False: it was paused already. */
    pause(queue: string): Promise<boolean>;
    /** False: it was not paused. */
    resume(queue: string): Promise<boolean>;
  };
  readonly workers: {
    /** Every live incarnation. */
    list(): Promise<readonly Consumer[]>;
    /** Asks one to end as SIGTERM would; it is not replaced. False: no such worker is alive. */
    drain(worker: string): Promise<boolean>;
  };
  readonly tasks: {
    /** Tasks of all stores, in every state; what runs comes first, then what waits. */
    list(options?: TaskListOptions): Promise<TaskPage>;
    /** One task with its input and result. If it has redacted copies, or there is a redactor, only the copies are shown. */
    inspect(id: string): Promise<TaskInspection | null>;
    /** Why it is not running, or how it went. */
    why(id: string): Promise<WhyAnswer>;
    cancel(id: string): Promise<'ok' | 'terminal'>;
    /** What runs now, with worker, host and pid. */
    inflight(options?: {
      readonly limit?: number;
      readonly cursor?: string;
    }): Promise<InflightPage>;
  };
  readonly idempotency: {
    /** The holder or the result of a key. A task's key is its name, `#` and the key; of free-standing code only the last two. */
    show(key: string): Promise<KeyDetails | null>;
    /** Forgets a result, or a holder that has ended; with `force` also a live one, whose effect may then happen twice. */
    reset(key: string, options?: { readonly force?: boolean }): Promise<ResetStatus>;
  };
}

/** Which tasks a list has, and how many. */
export interface TaskListOptions extends TaskFilter {
  readonly limit?: number;
  readonly cursor?: string;
}

/** What operations need besides stores. */
export interface AdminSettings {
  /** Covers arguments that were stored unredacted. */
  readonly redact: Redact | null;
  readonly why: WhyConfig;
  readonly now: () => number;
}

/** The settings of a context. */
export function adminSettings({
  redact,
  config,
  runtime,
}: Pick<Context, 'redact' | 'config' | 'runtime'>): AdminSettings {
  const why = { hasBroker: config.broker !== null, book: new LimitBook(config.admission) };
  return { redact, why, now: () => runtime.clock.now() };
}

/** The ports an operator works through; outbox and ledger may be different stores. */
export interface AdminStores {
  readonly outbox: OutboxStore;
  readonly outboxReads: OutboxReads;
  readonly ledger: Ledger;
  readonly control: ControlStore;
  readonly ledgerReads: LedgerReads;
  readonly idempotency: IdempotencyStore;
  readonly fences: Pick<FenceRows, 'forgetKey'>;
  readonly reads: ReadModel;
  readonly admission: Pick<AdmissionStore, 'figures' | 'pressure'>;
  /** Tells Celery workers of a task that was cancelled. Left out: there are none. */
  readonly revoke?: (id: string) => Promise<void>;
}

/**
 * The operator API of an instance.
 *
 * @example
 * const { queueDepth } = await createAdmin(outlast).stats();
 */
export function createAdmin(outlast: Pick<Outlast<never>, typeof CONTEXT>): Admin {
  const context = outlast[CONTEXT];
  return adminOn(() => operatorStores(context), adminSettings(context));
}

/** The stores of a context for operators: a key is forgotten in every database that may have effects under it. */
export async function operatorStores(
  context: Pick<Context, 'config' | 'log' | 'stores' | 'adminStores'>,
): Promise<AdminStores> {
  const { fences } = await context.stores();
  const { outboxes } = context.config;
  return {
    ...(await context.adminStores()),
    fences: effectDatabases(fences, outboxes),
    revoke: id => revokeElsewhere(context, id),
  };
}

const PAGE = 50;

export function adminOn(stores: () => Promise<AdminStores>, settings: AdminSettings): Admin {
  const { redact } = settings;
  return {
    stats: async options => await (await stores()).reads.stats(options?.top ?? 5),
    slo: async options => {
      const target = readShare(options?.target);
      return burnReport(await (await stores()).ledgerReads.objectives(), target);
    },
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
      show: async id => await showLetter(await stores(), id, redact),
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
    tasks: tasksOn(stores, settings),
    idempotency: {
      show: async key => await showKey(await stores(), key),
      reset: async (key, options) => await resetKey(await stores(), key, options?.force ?? false),
    },
  };
}

function tasksOn(
  stores: () => Promise<AdminStores>,
  { redact, why, now }: AdminSettings,
): Admin['tasks'] {
  return {
    list: async (options = {}) => {
      const { limit = PAGE, cursor = null, ...terms } = options;
      const filter = readFilter(terms);
      const page = { filter, limit: readLimit(limit), cursor, nowMs: now() };
      return await listTasks(await stores(), page);
    },
    inspect: async id =>
      await inspectTask(await stores(), id, { redact, hasBroker: why.hasBroker }),
    why: async id => await whyTask(await stores(), id, why),
    cancel: async id => await cancelAsOperator(id, await stores()),
    inflight: async ({ limit = PAGE, cursor = null } = {}) =>
      await inflightTasks(await stores(), { limit: readLimit(limit), cursor }, now()),
  };
}

async function cancelAsOperator(id: string, stores: AdminStores): Promise<'ok' | 'terminal'> {
  const status = await cancelTask(id, stores);
  if (status === 'ok') await stores.revoke?.(id);
  return status;
}

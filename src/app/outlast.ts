import type { SqlTransaction } from '../adapters/sql/sql-transaction.ts';
import type { OutlastConfig } from '../config/config.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import type { Duration } from '../task/duration.ts';
import type { TaskHandle } from '../result/result-handle.ts';
import type { Call, Permit, ResultOf, SendRest, Task, TaskShape } from '../task/define-task.ts';
import type { EventListener, EventName } from '../telemetry/events.ts';
import type { LockAnswer } from '../idempotency/idempotency-lock.ts';
import type { Handler, HandlerFunction, HandlerOptions } from '../worker/handler.ts';
import type { Schedules } from './create-schedules.ts';
import type { Context } from '../context/context.ts';

export type { SqlTransaction };

export const CONTEXT: unique symbol = Symbol.for('outlast.context') as never;

/** The handles of many calls, each with its own result type. */
export type HandlesOf<C extends readonly Call[]> = {
  readonly [K in keyof C]: TaskHandle<ResultOf<C[K]>>;
};

/** The options of `createOutlast`: a configuration, and the library your transactions belong to. */
export interface CreateOptions<Tx> extends OutlastConfig {
  readonly adapter?: TransactionAdapter<Tx>;
  /** A named outbox of the configuration, in a separate database; the adapter's must be the same. */
  readonly outbox?: string;
}

/** Options of `idempotencyLock`. */
export interface LockOptions {
  /** How long to wait while another caller runs; after that `ERR_RESULT_TIMEOUT`. @default as long as the other takes */
  readonly wait?: Duration;
}

/** Outlast as an application sees it. `Tx` is the transaction type of your own library. */
export interface Outlast<Tx = SqlTransaction> extends AsyncDisposable {
  /** Writes a workflow, or a task that has its input, inside your open transaction. */
  send<C extends Call>(tx: Tx, call: C): Promise<TaskHandle<ResultOf<C>>>;
  /** Writes a task inside your open transaction: it appears when that commits, or never. */
  send<S extends TaskShape>(
    tx: Tx,
    task: Task<S>,
    ...rest: SendRest<S>
  ): Promise<TaskHandle<S['result']>>;
  /** Many at once, one statement per thousand. */
  sendMany<const C extends readonly Call[]>(tx: Tx, calls: C): Promise<HandlesOf<C>>;
  /** No outbox: straight to the broker, confirmed. A rollback does not undo it. */
  push<S extends TaskShape>(task: Task<S>, ...rest: SendRest<S>): Promise<TaskHandle<S['result']>>;
  /**
   * Asks whether a task would be admitted, and reserves capacity for it for 30 s: before a transaction, because `send` checks
   * no limits. Give what it returns to `send` or `push` as `permit`, with the same task, input, queue and tenant.
   *
   * @throws AdmissionRejectedError with `retryAfterMs` when a limit is reached
   */
  admit<S extends TaskShape>(task: Task<S>, ...rest: SendRest<S>): Promise<Permit>;
  /** The handle of any task, whichever process sent it. */
  find<S extends TaskShape>(task: Task<S>, id: string): TaskHandle<S['result']>;
  /** A transaction of your library, or of Outlast's own database when none was given. */
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
  /** Joins a contract and the code that runs it. */
  handler<S extends TaskShape, C = never>(
    task: Task<S>,
    handler: HandlerFunction<S, Tx, C> | HandlerOptions<S, Tx, C>,
  ): Handler;
  /**
   * Runs `fn` once for its key; every other caller, in any process, waits and gets its result, which is kept for `ttl`. `ran`
   * says whether it was this call that ran it. The result must be JSON. If `fn` throws, the next caller gets the key. `signal` fires when another caller may have the key.
   *
   * @example
   * const { value, ran } = await outlast.idempotencyLock('import-7', '1h', signal => importFile('7.csv', { signal }));
   * if (ran) console.log(`imported ${value.rows} rows`);
   */
  idempotencyLock<T>(
    key: string,
    ttl: Duration,
    fn: (signal: AbortSignal) => Promise<T> | T,
    options?: LockOptions,
  ): Promise<LockAnswer<T>>;
  /** Tasks that are sent by the clock. */
  readonly schedules: Schedules;
  /** Subscribes to an event of this process; returns the function that unsubscribes. */
  on<N extends EventName>(
    name: N,
    listener: EventListener<N>,
    options?: { readonly signal?: AbortSignal },
  ): () => void;
  /** The same outbox through another library. */
  via<Other>(adapter: TransactionAdapter<Other>): Outlast<Other>;
  /** Closes our own connections; yours stay open. */
  close(): Promise<void>;
  /** @internal */
  readonly [CONTEXT]: Context;
}

import {
  type TextRow,
  type TransactionAdapter,
  type TransactionStatus,
  rolledBack,
} from '../../outbox/transaction-adapter.ts';
import { mayEndTransaction } from '../sql/may-end-transaction.ts';
import { AnswerLimit, type AnswerOptions } from './answer-limit.ts';
import { sqlStateOf } from '../postgres/pg-errors.ts';
import { statementName } from '../postgres/pg-database.ts';

/** The part of a `pg` client that is used. */
export interface PgClientLike {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
  release(error?: Error | boolean): void;
  on?(event: 'error', listener: (error: Error) => void): unknown;
  off?(event: 'error', listener: (error: Error) => void): unknown;
}

/** The part of a pool of `pg` that is needed. */
export interface PgPoolLike {
  connect(): Promise<PgClientLike>;
}

/** The pool's own client type: pg's `connect` has a second form with a callback, which inference would pick. */
export type PgClientOf<P> = P extends {
  connect: { (): Promise<infer C>; (callback: (...args: never) => void): void };
}
  ? C
  : P extends { connect(): Promise<infer C> }
    ? C
    : never;

const STATUS: Readonly<Record<string, TransactionStatus>> = { T: 'open', I: 'none', E: 'aborted' };

/** Options of `fromPg`. */
export interface FromPgOptions extends AnswerOptions {
  /**
   * Lets the server keep the plan of a send, on connections that reach it without a pooler. Switch it off if
   * something else makes sessions forget plans, such as DISCARD ALL.
   * @default true
   */
  readonly prepare?: boolean;
}

/**
 * Sends inside transactions of `pg`. A `tx` is a client of the pool after BEGIN.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromPg(pool) });
 */
export function fromPg<P extends PgPoolLike>(
  pool: P,
  options: FromPgOptions = {},
): TransactionAdapter<PgClientOf<P>> {
  const plans = new KeptPlans(options.prepare ?? true);
  const limit = new AnswerLimit(options);
  const execute = async (
    client: PgClientLike,
    text: string,
    values: readonly (string | null)[],
  ): Promise<readonly TextRow[]> =>
    (await limit.answer(client.query(text, [...values]))).rows as TextRow[];
  const executeKept: typeof execute = (client, text, values) => {
    const isKept = plans.isKeptBy(client);
    if (isKept === true)
      return limit.answer(plans.query(client, text, values) as Promise<readonly TextRow[]>);
    if (isKept === false) return execute(client, text, values);
    // Checked after the task and not before it: a ROLLBACK that the caller runs meanwhile must come after the task.
    return execute(client, text, values).then(rows =>
      limit.answer(plans.ask(client)).then(() => rows),
    );
  };
  const status = (client: PgClientLike): TransactionStatus =>
    isPool(client) ? 'pool' : statusOf(client);
  const adapter: TransactionAdapter<PgClientLike> = {
    dialect: 'postgres',
    endsIdleTransactions: true,
    location: 'server',
    execute,
    executeKept,
    status,
    transaction: fn => inTransaction(pool, limit, fn),
  };
  return adapter as unknown as TransactionAdapter<PgClientOf<P>>;
}

const isPool = (given: object): boolean =>
  typeof (given as { readonly totalCount?: unknown }).totalCount === 'number';

/** Further fields of `pg` that are used; the ones with an underscore may be missing in another version. */
interface PgInternals {
  getTransactionStatus?(): string | null;
  readonly _activeQuery?: { readonly text?: unknown } | null;
  readonly _queryQueue?: readonly { readonly text?: unknown }[];
  readonly _sentQueryQueue?: readonly { readonly text?: unknown }[];
}

/** The status of the last answer, unless a statement that may end the transaction is on its way already. */
function statusOf(client: PgClientLike): TransactionStatus {
  const internals = client as PgInternals;
  const reported = STATUS[internals.getTransactionStatus?.() ?? ''] ?? 'unknown';
  if (reported !== 'open') return reported;
  const { _activeQuery: active, _sentQueryQueue: sent = [], _queryQueue: queued = [] } = internals;
  if (!active && sent.length === 0 && queued.length === 0) return 'open';
  return [active, ...sent, ...queued].some(mayEnd) ? 'unknown' : 'open';
}

const mayEnd = (query: { readonly text?: unknown } | null | undefined): boolean =>
  typeof query?.text === 'string' && mayEndTransaction(query.text);

async function inTransaction<T>(
  pool: PgPoolLike,
  limit: AnswerLimit,
  fn: (client: PgClientLike) => Promise<T>,
): Promise<T> {
  const client = await limit.connection(pool.connect(), late => late.release());
  let broken: Error | undefined;
  // The server may end the connection between two statements: without a listener that would end the process. The next
  // statement fails, and the pool drops the client.
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on?.('error', onError);
  try {
    await limit.answer(client.query('BEGIN'));
    const value = await fn(client);
    // The answer is ROLLBACK when a statement failed and its error was swallowed: then nothing was committed.
    const answer = await limit.answer(client.query('COMMIT'));
    const { command } = answer as { readonly command?: string };
    if (command === 'ROLLBACK') throw rolledBack();
    return value;
  } catch (error) {
    if (limit.isLate(error)) broken = error as Error;
    else
      await limit.answer(client.query('ROLLBACK')).catch((failure: unknown) => {
        broken = failure as Error;
      });
    throw error;
  } finally {
    client.off?.('error', onError);
    // A connection that broke or could not roll back must not be handed to the next caller.
    client.release(broken);
  }
}

/** The part of a `pg` client that is used. */
interface Client {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/** Further fields of `pg`. */
interface NamingClient {
  /** The session that the server, or the pooler in front of it, announced when the client connected. */
  readonly processID?: number | null;
  query(statement: Statement, values: readonly unknown[]): Promise<{ readonly rows: unknown[] }>;
}

interface Statement {
  readonly name: string;
  readonly text: string;
}

/**
 * Makes the object for a named statement of `pg`. `pg` copies every own property of such an object, with its descriptor,
 * which takes longer than making a task; so it has none, and inherits both.
 */
function statementOf(text: string): Statement {
  let kept = statements.get(text);
  if (kept === undefined) {
    kept = { name: statementName(text), text };
    statements.set(text, kept);
  }
  return Object.create(kept) as Statement;
}

const statements = new Map<string, Statement>();

/**
 * Which clients may name statements, so that the server plans them once and not with every send.
 *
 * A pooler in transaction mode gives each transaction to another session, which may not know the name: the statement
 * would fail, and the user's transaction with it. Such a pooler cannot announce a session number to its clients, for
 * they have none. So the session that answers is compared with the announced one, once per connection.
 */
class KeptPlans {
  #isOn: boolean;
  readonly #answers = new WeakMap<Client, boolean>();

  constructor(isOn: boolean) {
    this.#isOn = isOn;
  }

  /** Undefined: this client was not checked yet. */
  isKeptBy(client: Client): boolean | undefined {
    return this.#isOn ? this.#answers.get(client) : false;
  }

  async ask(client: Client): Promise<boolean> {
    const announced = (client as unknown as NamingClient).processID;
    const { rows } = await client.query('select pg_backend_pid()::text as session');
    const [row] = rows as { readonly session: string }[];
    const isOwn = typeof announced === 'number' && row?.session === String(announced);
    this.#answers.set(client, isOwn);
    return isOwn;
  }

  query(client: Client, text: string, values: readonly unknown[]): Promise<unknown[]> {
    return (client as unknown as NamingClient)
      .query(statementOf(text), values)
      .then(rowsOf, this.#onError);
  }

  readonly #onError = (error: unknown): never => {
    // The session has forgotten the name. This transaction is lost, but no other will be.
    if (sqlStateOf(error) === '26000') this.#isOn = false;
    throw error;
  };
}

const rowsOf = ({ rows }: { readonly rows: unknown[] }): unknown[] => rows;

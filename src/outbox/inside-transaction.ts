import {
  type Comparison,
  type Executor,
  type TransactionAdapter,
  type TransactionStatus,
  failedTransaction,
  notInTransaction,
} from './transaction-adapter.ts';
import { isOutlastError, outlastError } from '../errors/error.ts';
import type { Clock } from '../runtime/runtime.ts';
import type { Logger } from '../telemetry/logger.ts';

type Execute<Tx, Rows> = (
  tx: Tx,
  text: string,
  values: readonly (string | null)[],
) => Promise<Rows>;

/**
 * Runs statements that a rollback of the caller must undo. The transaction is looked at for every statement, and nothing is
 * awaited between the two: a caller that does not wait for its `send` may end the transaction meanwhile, and a statement that
 * comes after that would be committed by itself. Where looking is not enough `isCertain` is false, and the writer sees to it.
 */
export function insideTransaction<Tx>(adapter: TransactionAdapter<Tx>): Executor<Tx> {
  const executeInside = adapter.executeInside?.bind(adapter);
  const guard =
    <Rows>(execute: Execute<Tx, Rows>): Execute<Tx, Rows> =>
    (tx, text, values) => {
      const status = adapter.status(tx);
      if (status === 'none' || status === 'pool' || status === 'aborted')
        return Promise.reject(refusal(status));
      return execute(tx, text, values);
    };
  const { execute, executeKept } = anywhere(adapter);
  return {
    isCertain: tx => adapter.askStatus === undefined && adapter.status(tx) === 'open',
    execute: guard(execute),
    ...(executeKept && { executeKept: guard(executeKept) }),
    ...(executeInside && { executeInside: guard(executeInside) }),
  };
}

/** Runs statements as they come, in a transaction or not: for `strict: false`. */
export function anywhere<Tx>(adapter: TransactionAdapter<Tx>): Executor<Tx> {
  return {
    isCertain: () => true,
    isLenient: true,
    execute: adapter.execute.bind(adapter),
    ...(adapter.executeKept && { executeKept: adapter.executeKept.bind(adapter) }),
  };
}

const refusal = (status: Exclude<TransactionStatus, 'open' | 'unknown'>): Error =>
  status === 'aborted' ? failedTransaction() : notInTransaction(status);

export interface SameDatabaseDeps<Tx> {
  readonly compare: (tx: Tx) => Promise<Comparison>;
  /** The expected URL, without its secrets, and the option that names it. */
  readonly configured: { readonly option: string; readonly url: string };
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Logger;
}

/** A database that did not answer is not asked again with every send. */
const PAUSE_MS = 30_000;

/**
 * Refuses to write tasks into a database where no relay looks for them. Checked with the first send, because nothing is
 * connected before; once it is certain, it is not checked again.
 */
export class SameDatabase<Tx> {
  readonly #deps: SameDatabaseDeps<Tx>;
  #isCertain = false;
  #asking: Promise<void> | null = null;
  #askAgainAt = -Infinity;

  constructor(deps: SameDatabaseDeps<Tx>) {
    this.#deps = deps;
  }

  /** Null: there is nothing to wait for. Sends in the meantime wait for the same answer. */
  check(tx: Tx): Promise<void> | null {
    if (this.#isCertain) return null;
    if (this.#asking !== null) return this.#asking;
    if (this.#deps.clock.monotonic() < this.#askAgainAt) return null;
    this.#asking = this.#ask(tx).finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #ask(tx: Tx): Promise<void> {
    const { compare, configured, clock, log } = this.#deps;
    try {
      const { isSame, name } = await compare(tx);
      if (isSame === false) throw mismatch(name, configured);
      this.#isCertain = isSame === true;
    } catch (error) {
      if (isOutlastError(error, 'ERR_DATABASE_MISMATCH')) throw error;
      log.warn({ error }, `${configured.url} did not say whether tasks are written to it`);
    }
    this.#askAgainAt = clock.monotonic() + PAUSE_MS;
  }
}

export function mismatch(
  adapter: string,
  { option, url }: { readonly option: string; readonly url: string },
): Error {
  return outlastError('ERR_DATABASE_MISMATCH', {
    message: `the adapter writes tasks to ${adapter}, and \`${option}\` is ${url}: no relay would find them`,
    hint: `Let both be one database: create the pool from the URL of \`${option}\`, or set \`${option}\` to the database of the pool.`,
    fields: { adapter, configured: url },
  });
}

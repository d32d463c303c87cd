import {
  failedTransaction,
  notInTransaction,
  type Executor,
  type TransactionAdapter,
  type TransactionStatus,
} from './transaction-adapter.ts';

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
    execute: adapter.execute.bind(adapter),
    ...(adapter.executeKept && { executeKept: adapter.executeKept.bind(adapter) }),
  };
}

const refusal = (status: Exclude<TransactionStatus, 'open' | 'unknown'>): Error =>
  status === 'aborted' ? failedTransaction() : notInTransaction(status);

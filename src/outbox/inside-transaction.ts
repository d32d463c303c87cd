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
 * Runs statements that a rollback of the caller must undo. The transaction is checked again for every statement, and
 * nothing is awaited between the two: a caller that does not wait for its `send` may end the transaction meanwhile, and a
 * statement that comes after that would be committed by itself.
 */
export function insideTransaction<Tx>(adapter: TransactionAdapter<Tx>): Executor<Tx> {
  const executeInside = adapter.executeInside?.bind(adapter);
  const guard =
    <Rows>(execute: Execute<Tx, Rows>): Execute<Tx, Rows> =>
    (tx, text, values) => {
      const status = adapter.status(tx);
      if (status === 'none' || status === 'pool' || status === 'aborted')
        return Promise.reject(refusal(status));
      // With `executeInside` a statement that only reads needs no more than this.
      if (status === 'open' || executeInside) return execute(tx, text, values);
      return whenKnown(adapter, tx).then(() => execute(tx, text, values));
    };
  const { execute, executeKept } = anywhere(adapter);
  return {
    execute: guard(execute),
    ...(executeKept && { executeKept: guard(executeKept) }),
    ...(executeInside && { executeInside: guard(executeInside) }),
  };
}

/** Runs statements as they come, in a transaction or not: for `strict: false`. */
export function anywhere<Tx>(adapter: TransactionAdapter<Tx>): Executor<Tx> {
  return {
    execute: adapter.execute.bind(adapter),
    ...(adapter.executeKept && { executeKept: adapter.executeKept.bind(adapter) }),
  };
}

/**
 * A statement that may end the transaction is on its way: an answer that comes after its answer shows what it did. A library
 * that never knows was asked before the first statement.
 */
async function whenKnown<Tx>(adapter: TransactionAdapter<Tx>, tx: Tx): Promise<void> {
  await adapter.execute(tx, 'select 1', []);
  const status = adapter.status(tx);
  if (status !== 'open' && status !== 'unknown') throw refusal(status);
}

const refusal = (status: Exclude<TransactionStatus, 'open' | 'unknown'>): Error =>
  status === 'aborted' ? failedTransaction() : notInTransaction(status);

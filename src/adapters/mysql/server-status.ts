import type { TransactionStatus } from '../../outbox/transaction-adapter.ts';

const IN_TRANSACTION = 1;
const AUTOCOMMIT = 2;

/** The flags that MySQL and MariaDB send with every answer: without autocommit a transaction is always open. */
export function readServerStatus(flags: unknown): TransactionStatus {
  if (typeof flags !== 'number') return 'unknown';
  const isOpen = (flags & IN_TRANSACTION) !== 0 || (flags & AUTOCOMMIT) === 0;
  return isOpen ? 'open' : 'none';
}

/** True if a statement outside of a transaction is committed by itself; also where the flags are missing. */
export const isAutocommit = (flags: unknown): boolean =>
  typeof flags !== 'number' || (flags & AUTOCOMMIT) !== 0;

/** A pool has the methods of a connection, and runs each statement on another one. */
export const handsOutConnections = (given: object): boolean =>
  typeof (given as { readonly getConnection?: unknown }).getConnection === 'function';

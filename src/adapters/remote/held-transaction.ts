import type { PostgresDatabase } from '../postgres/postgres-database.ts';
import type { SqlParam, SqlRow, SqlRunner } from '../sql/sql-database.ts';

/** Thrown into the transaction to make the database roll it back; never seen outside. */
const ROLLBACK: unique symbol = Symbol('rollback');

/**
 * A transaction that is driven by messages instead of by one function.
 *
 *   waiting ──the database opens it──► open ──commit──► over
 *      │                                └──rollback, the client's end, the database's limit──► over
 *      └──rollback, the client's end──► rolled back as soon as it opens
 */
export class HeldTransaction {
  readonly #runner: Promise<SqlRunner>;
  readonly #finished: Promise<void>;
  readonly #end: PromiseWithEnds<void>;

  constructor(db: PostgresDatabase) {
    const opened = promiseWithEnds<SqlRunner>();
    const end = promiseWithEnds<void>();
    this.#end = end;
    this.#runner = opened.promise;
    this.#finished = db.transaction(async tx => {
      opened.resolve(tx);
      await end.promise;
    });
    // When the database could not open it, the waiting caller gets the reason.
    this.#finished.catch(opened.reject);
  }

  async opened(): Promise<void> {
    await this.#runner;
  }

  async query(text: string, params?: readonly SqlParam[]): Promise<readonly SqlRow[]> {
    const runner = await this.#runner;
    return await runner.query(text, params);
  }

  /** Rejects when the database had rolled it back already, for instance at its time limit. */
  async commit(): Promise<void> {
    this.#end.resolve();
    await this.#finished;
  }

  /** Resolves when nothing of the transaction is left. May be called at any time, also twice. */
  async rollback(): Promise<void> {
    this.#end.reject(ROLLBACK);
    try {
      await this.#finished;
    } catch {
      // Whatever ended it, it is rolled back, which is what the caller wanted.
    }
  }
}

interface PromiseWithEnds<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

/** `Promise.withResolvers` is not in Node 20. */
function promiseWithEnds<T>(): PromiseWithEnds<T> {
  let resolve: (value: T) => void = () => undefined;
  let reject: (reason: unknown) => void = () => undefined;
  const promise = new Promise<T>((onValue, onReason) => {
    resolve = onValue;
    reject = onReason;
  });
  // A rejection without a waiter is expected here.
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}

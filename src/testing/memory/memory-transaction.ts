import { outlastError } from '../../errors/error.ts';

/**
 * A transaction of a database in RAM: its writes are kept aside and become visible all at once, in the synchronous
 * `commit`, or never.
 */
export class MemoryTransaction {
  #writes: (() => void)[] = [];
  #isOpen = true;

  /** Adds a write. It is applied at the commit, and never after a rollback. */
  write(apply: () => void): void {
    this.#assertOpen();
    this.#writes.push(apply);
  }

  commit(): void {
    this.#assertOpen();
    this.#isOpen = false;
    for (const apply of this.#writes) apply();
  }

  rollback(): void {
    this.#isOpen = false;
    this.#writes = [];
  }

  #assertOpen(): void {
    if (this.#isOpen) return;
    throw outlastError('ERR_NOT_IN_TRANSACTION', {
      message: 'this transaction has ended',
      hint: 'Write before the commit, inside the function that was given the transaction.',
      fields: {},
    });
  }
}

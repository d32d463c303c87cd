import type { Envelope } from '../task/envelope.ts';

/** Celery holds any number in memory. These are only shown: the ledger has the tasks themselves. */
const MOST_SHOWN = 1_000;

export interface WaitingTask {
  readonly envelope: Envelope;
  readonly dueMs: number;
}

/** The tasks that this process has put into the ledger until their time comes: Celery's `scheduled`. */
export class WaitingTasks {
  readonly #tasks = new Map<string, WaitingTask>();

  note(envelope: Envelope, dueMs: number): void {
    this.#tasks.delete(envelope.id);
    if (this.#tasks.size < MOST_SHOWN) this.#tasks.set(envelope.id, { envelope, dueMs });
  }

  forget(id: string): void {
    this.#tasks.delete(id);
  }

  /** Those that are not due yet, the next one first. Any worker may begin the others. */
  list(nowMs: number): readonly WaitingTask[] {
    for (const [id, { dueMs }] of this.#tasks) if (dueMs <= nowMs) this.#tasks.delete(id);
    return [...this.#tasks.values()].sort((a, b) => a.dueMs - b.dueMs);
  }
}

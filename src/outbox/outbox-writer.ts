import type { NewTask } from './compose.ts';

/** The caller's side of the outbox: writes tasks inside the caller's own open transaction. */
export interface OutboxWriter<Tx> {
  /** One statement per thousand tasks; one answer for each, in order. */
  write(tx: Tx, tasks: readonly NewTask[]): Promise<readonly WriteAnswer[]>;
}

/**
 * `new`: written. `earlier`: the same task was written before, under this id. `key-mismatch`: the key belongs to a
 * send with other input. `id-mismatch`: the id belongs to a task with other input.
 */
export type WriteAnswer =
  | { readonly kind: 'new' }
  | { readonly kind: 'earlier'; readonly id: string }
  | { readonly kind: 'key-mismatch' }
  | { readonly kind: 'id-mismatch' };

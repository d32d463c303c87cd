/**
 * Remembers outside a ledger how often it has lost its memory. Epochs begin above generation times 2^20, so a ledger that
 * was wiped, or came back with older data, never hands out a fence that is in use.
 */
export interface GenerationStore {
  /**
   * The generation of a ledger that shows this identity: raised by one when it showed another before, and never below
   * `atLeast`. Every caller with the same identity gets the same answer or a higher one.
   */
  settle(node: string, shown: string, atLeast: number): Promise<number>;
}

/** Epochs of one generation: more than the times any task is begun. */
export const EPOCHS_PER_GENERATION: number = 2 ** 20;

/** The generation in which a run was begun. */
export function generationOf(epoch: number): number {
  return Math.floor((epoch - 1) / EPOCHS_PER_GENERATION);
}

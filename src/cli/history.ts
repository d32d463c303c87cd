import type { HistoryEntry } from '../ledger/dead-letter.ts';
import type { Output } from './output.ts';

/** One line for each step: when, what, under which epoch, by which worker, and the error or how the worker ended. */
export function printHistory(history: readonly HistoryEntry[], output: Output): void {
  for (const { at, step, epoch, worker, error } of history) {
    const by = worker === undefined ? '' : ` ${worker}`;
    const why = error === undefined ? '' : ` ${error.type}: ${error.message}`;
    output.line(`  ${at} ${step} epoch ${epoch}${by}${why}`);
  }
}

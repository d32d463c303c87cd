import type { HistoryEntry } from '../ledger/dead-letter.ts';
import type { LifeMoment } from '../admin/life-line.ts';
import type { Output } from './output.ts';

/** One line for each step: when, what, under which epoch, by which worker, and the error or how the worker ended. */
export function printHistory(history: readonly HistoryEntry[], output: Output): void {
  for (const { at, step, epoch, worker, error } of history) {
    const by = worker === undefined ? '' : ` ${worker}`;
    const why = error === undefined ? '' : ` ${error.type}: ${error.message}`;
    output.line(`  ${at} ${step} epoch ${epoch}${by}${why}`);
  }
}

/** One line for each moment: when, how long after the one before, in which run, by which worker, and why. */
export function printLife(life: readonly LifeMoment[], output: Output): void {
  for (const { at, gapMs, step, run, epoch, worker, why } of life) {
    const gap = gapMs === null ? '' : `${gapMs < 0 ? '' : '+'}${gapMs} ms`;
    const where = [
      run === null ? [] : `run ${run}`,
      epoch === null ? [] : `epoch ${epoch}`,
      worker ?? [],
      why ?? [],
    ].flat();
    output.line(`  ${at} ${gap.padStart(12)} ${[step, ...where].join(' ')}`);
  }
}

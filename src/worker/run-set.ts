import type { RunRef } from '../ledger/ledger.ts';
import { runKey } from './run-key.ts';
import type { Run } from './run.ts';

/**
 * The runs of a worker. Not a `Set`: one that things come to and go from all the time leaves a trail of outgrown tables,
 * each of which holds the next and whatever was in it, until the next full collection; every run would be kept, copied and
 * promoted by the collector long after its end.
 */
export class RunSet implements Iterable<Run> {
  readonly #runs: Run[] = [];

  get size(): number {
    return this.#runs.length;
  }

  get hasSuspect(): boolean {
    return this.#runs.some(run => run.task.isSuspect);
  }

  /** Those of the runs of the store that are not here. */
  strangersAmong(stored: readonly RunRef[]): readonly RunRef[] {
    const ours = new Set(this.#runs.map(run => runKey(run.task)));
    return stored.filter(ref => !ours.has(runKey(ref)));
  }

  add(run: Run): void {
    run.place = this.#runs.length;
    this.#runs.push(run);
  }

  /** Once for each. The last one takes its place. */
  delete(run: Run): void {
    const last = this.#runs.pop() as Run;
    if (last === run) return;
    last.place = run.place;
    this.#runs[run.place] = last;
  }

  /** As they are now, whatever comes and goes meanwhile. */
  [Symbol.iterator](): IterableIterator<Run> {
    return [...this.#runs].values();
  }
}

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

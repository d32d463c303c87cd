import type { RunRef } from '../../ledger/ledger.ts';
import { runKey } from './claim-key.ts';
import type { Run } from './run.ts';
import { sleep } from '../../runtime/runtime.ts';
import type { WorkerDeps } from '../worker-deps.ts';

/**
 * The runs of a worker. Not a `Set`: one with constant inserts and deletes leaves a trail of outgrown tables, each of which
 * references the next and whatever was in it, until the next full collection; every run would be kept, copied and
 * promoted by the collector long after its end.
 */
export class RunSet implements Iterable<Run> {
  readonly #runs: Run[] = [];
  #bytes = 0;

  get size(): number {
    return this.#runs.length;
  }

  /** What their bodies weigh together. */
  get bytes(): number {
    return this.#bytes;
  }

  get hasSuspect(): boolean {
    return this.#runs.some(run => run.task.isSuspect);
  }

  /** The unknown runs: those that the store has and this worker does not. */
  unknownAmong(stored: readonly RunRef[]): readonly RunRef[] {
    const ours = new Set(this.#runs.map(run => runKey(run.task)));
    return stored.filter(ref => !ours.has(runKey(ref)));
  }

  /** Stops runs that the store does not list as ours, according to a beat that was sent at `sentAt`; null: it lists none. */
  compare(stored: readonly RunRef[] | null, sentAt: number, now: number): void {
    const theirs = stored === null ? null : new Set(stored.map(runKey));
    for (const run of this) {
      run.acknowledgeInTime(now);
      // Begun after the beat was sent: the answer cannot know of it.
      if (theirs !== null && run.startedAt < sentAt && !theirs.has(runKey(run.task)))
        run.stop('lost');
    }
  }

  add(run: Run): void {
    run.index = this.#runs.length;
    this.#runs.push(run);
    this.#bytes += run.task.envelope.body.length;
  }

  /** Once for each run. The last one moves to its index. */
  delete(run: Run): void {
    this.#bytes -= run.task.envelope.body.length;
    const last = this.#runs.pop() as Run;
    if (last === run) return;
    last.index = run.index;
    this.#runs[run.index] = last;
  }

  /** A snapshot, whatever is added or deleted meanwhile. */
  [Symbol.iterator](): IterableIterator<Run> {
    return [...this.#runs].values();
  }
}

/** How long a drain waits for the store to take back what was not finished. */
const RELEASE_GRACE_MS = 5_000;

/** Waits for all current runs, however they end. */
export async function untilEnded(runs: RunSet): Promise<void> {
  await Promise.all([...runs].map(run => run.finished.catch(() => undefined)));
}

/**
 * Gives runs the shutdown timeout to end, and releases those that have not; returns how many were given back, including
 * those that gave themselves back. `given` is what else goes back meanwhile.
 */
export async function drainRuns(
  runs: RunSet,
  given: Promise<void>,
  { runtime, settings, forceStop }: Pick<WorkerDeps, 'runtime' | 'settings' | 'forceStop'>,
): Promise<number> {
  const { clock, faultPoint } = runtime;
  const all = [...runs];
  const grace = new AbortController();
  const signal = forceStop ? AbortSignal.any([grace.signal, forceStop]) : grace.signal;
  await Promise.race([
    untilEnded(runs).then(() => grace.abort()),
    sleep(clock, settings.shutdownTimeoutMs, signal),
  ]);
  await faultPoint('worker.drain-before-release');
  for (const run of runs) run.stop('release');
  // What the broker does not take back now it takes back when its connection is closed.
  await Promise.race([Promise.all([untilEnded(runs), given]), sleep(clock, RELEASE_GRACE_MS)]);
  return all.filter(run => run.isGivenBack).length;
}

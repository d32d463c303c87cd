import type { BegunTask } from '../../ledger/ledger.ts';
import { type BackoffPolicy, backoffMs } from '../../runtime/backoff.ts';
import { type Runtime, sleep } from '../../runtime/runtime.ts';
import { type RunStop, type Settlement, failed, timedOut } from './settlement.ts';
import { readOptions } from '../../task/read-options.ts';
import type { Handler } from '../handler.ts';
import { circumstancesOf, stopped } from '../isolate/run-in-isolate.ts';

const DELAY: BackoffPolicy = { baseMs: 500, maxMs: 30_000, jitter: 'full' };
/**
 * A run that could not go on keeps its slot for this long. Each task has its own delay, but a worker would still run through
 * a backlog of tasks at full speed, each for nothing.
 */
const HOLD_MS = 200;
/** An outage that seems to end and comes back at once is not logged every time. */
const LOG_EVERY_MS = 60_000;
/** Tasks whose releases are remembered: a little memory each; for a forgotten task the age of the outage is used. */
const MOST_TASKS = 10_000;

interface Outage {
  readonly sinceMs: number;
  runs: number;
}

/**
 * Runs that are given back because something they need is away: the database of their effects, a store of keys or of
 * limits, an isolate. No attempt is spent on that, so only a delay keeps the task from running again at once, and
 * forever. The delay grows with every release of the task that this worker knows of and with the age of the outage, whichever
 * is longer. An outage is of one thing and one task name, is logged once, and ends when such a run comes to an end.
 */
export class Outages {
  readonly #runtime: Runtime;
  readonly #releases = new Map<string, number>();
  readonly #outages = new Map<string, Outage>();
  readonly #loggedAt = new Map<string, number>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** The settlement of the run: unchanged, or, when something is away, a release with a delay. */
  postpone(
    task: BegunTask,
    settlement: Settlement,
    stop: Pick<RunStop, 'signal'>,
  ): Settlement | Promise<Settlement> {
    if (settlement.kind === 'release' && settlement.outage !== undefined)
      return this.#release(task, settlement.outage, stop);
    if (this.#outages.size > 0 || this.#releases.size > 0) this.#note(task, settlement);
    return settlement;
  }

  async #release(
    { id, envelope }: BegunTask,
    { what, why }: { readonly what: string; readonly why: string },
    stop: Pick<RunStop, 'signal'>,
  ): Promise<Settlement> {
    const { clock, random, emit } = this.#runtime;
    const { name, queue } = envelope;
    const outage = this.#outage(what, name, why);
    outage.runs += 1;
    const releases = (this.#releases.get(id) ?? 0) + 1;
    this.#remember(id, releases);
    const ageMs = clock.monotonic() - outage.sinceMs;
    const doublings = Math.floor(Math.log2(1 + ageMs / DELAY.baseMs));
    const delayMs = backoffMs(DELAY, Math.max(releases - 1, doublings), 0.5 + random.next() / 2);
    emit('task:released', { id, name, queue, what, why, releases, delayMs });
    await sleep(clock, HOLD_MS, stop.signal);
    return { kind: 'release', delayMs };
  }

  #outage(what: string, name: string, why: string): Outage {
    const { clock, log } = this.#runtime;
    const key = `${what} ${name}`;
    const known = this.#outages.get(key);
    if (known) return known;
    const now = clock.monotonic();
    if (now - (this.#loggedAt.get(key) ?? -Infinity) > LOG_EVERY_MS) {
      log.warn({ what, name, why }, 'runs are given back: something they need is away');
      this.#loggedAt.set(key, now);
    }
    const made: Outage = { sinceMs: now, runs: 0 };
    this.#outages.set(key, made);
    return made;
  }

  #remember(id: string, releases: number): void {
    // Moved to the end: the oldest entry is dropped first.
    this.#releases.delete(id);
    this.#releases.set(id, releases);
    const [oldest] = this.#releases.keys();
    if (oldest !== undefined && this.#releases.size > MOST_TASKS) this.#releases.delete(oldest);
  }

  /** A run that came to an end had what it needed; one that was stopped proves nothing. */
  #note({ id, envelope }: BegunTask, { kind }: Settlement): void {
    if (kind === 'release' || kind === 'drop') return;
    this.#releases.delete(id);
    for (const [key, { runs }] of this.#outages) {
      const [what, name] = key.split(' ');
      if (name !== envelope.name) continue;
      this.#outages.delete(key);
      this.#runtime.log.info({ what, name, runs }, 'runs have what they need again');
    }
  }
}

export interface TimedRun {
  readonly task: BegunTask;
  readonly handler: Handler;
  readonly stop: RunStop;
}

/**
 * The result of a user's schema or migration, which may be asynchronous: it gets no longer than the task may run, and ends
 * when the run is stopped. Otherwise one that never resolves would keep its task running, and its worker from draining.
 */
export async function inTime<T>(
  work: Promise<T>,
  { task, handler, stop }: TimedRun,
  runtime: Runtime,
): Promise<T | Settlement> {
  const { clock } = runtime;
  const undo: (() => void)[] = [];
  const { deadlineMs, timeoutMs = task.timeoutMs } = readOptions(task.envelope);
  const over = new Promise<Settlement>(resolve => {
    const expire = (ms: number, what: string): void => {
      const end = (): void => {
        const cause = timedOut(task, ms, what);
        resolve(failed(handler, task, circumstancesOf(task, runtime), { cause, askedMs: null }));
      };
      undo.push(clock.timer(ms, end));
    };
    if (timeoutMs !== undefined) expire(timeoutMs, 'its timeout');
    if (deadlineMs !== undefined) expire(deadlineMs - clock.now(), 'its deadline');
    const end = (): void => resolve(stopped(stop));
    stop.onStop(end);
    undo.push(() => stop.offStop(end));
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    for (const one of undo) one();
  }
}

import { isUnavailable } from '../errors/error.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { ResultStore } from '../result/result-store.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import type { StopReason } from '../worker/run/settlement.ts';
import { type TaskEvent, revokedEvent } from './event-sender.ts';
import { type Stamps, asList } from '../wire/stamps.ts';

export interface RevocationDeps {
  readonly ledger: Pick<Ledger, 'cancel'>;
  readonly results: ResultStore;
  readonly runtime: Runtime;
  readonly emit: (event: TaskEvent) => void;
  readonly onCancelled: (id: string) => void;
}

/** A run here that a revocation may end. */
interface Stoppable {
  readonly task: { readonly id: string };
  stop(reason: StopReason): void;
}

/** A fifth of what Celery remembers by default: here it is only shown to people, the ledger remembers all. */
const MOST_REMEMBERED = 10_000;
/** If the store is away for longer, the revocation is given up; the operator repeats it. */
const TRIES = 60;
const RETRY_MS = 1_000;

type Runs = () => readonly Stoppable[];

/**
 * Celery's `revoke`: a task that has not begun never will, one that runs goes on unless it is to be terminated. Every
 * worker receives it, so every worker writes the same tombstone; the ledger keeps it, which Celery does not.
 */
export class Revocations {
  readonly #deps: RevocationDeps;
  /** Ids that were cancelled, oldest first. */
  readonly #revoked = new Set<string>();
  /** Ids to terminate where they run, with the signal that was asked for. */
  readonly #terminating = new Map<string, string>();
  /** Ids that ran here when they were revoked. */
  readonly #doomed = new Set<string>();
  /** One at a time: a list of a thousand ids must not take all the connections to the store. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: RevocationDeps) {
    this.#deps = deps;
  }

  /** Ids that were revoked since this process started. */
  get ids(): readonly string[] {
    return [...this.#revoked];
  }

  /**
   * Resolves when every id was tried once; `signal` terminates those that run. Rejects if the store was away, and goes on
   * trying.
   */
  async revoke(ids: readonly string[], signal: string | null, runs: Runs): Promise<void> {
    const mine = this.#last.then(() => this.#revokeAll(ids, signal, runs));
    this.#last = mine.catch(() => undefined);
    await mine;
  }

  /** A task that is about to start has a stamp that was revoked. False: it has ended, or the store is away, so it starts. */
  async revokeStarting(id: string): Promise<boolean> {
    try {
      return await this.#cancel(id, true);
    } catch (error) {
      this.#deps.runtime.log.error({ error, task: id }, 'revoking failed');
      return false;
    }
  }

  /** A message was turned away because the ledger has its task: perhaps as revoked. */
  onHeld(id: string): void {
    if (this.#revoked.has(id)) this.#deps.emit(revokedEvent(id));
  }

  /** A run has ended; if it was revoked while it ran, it gets no retry. */
  onSettled(id: string, isRetried: boolean): void {
    if (this.#doomed.delete(id) && isRetried)
      void this.#keepTrying(id, () => this.#cancel(id, true));
  }

  /** A run was ended from outside: perhaps by a revocation. */
  onLost(id: string): void {
    this.#doomed.delete(id);
    const signal = this.#terminating.get(id);
    if (signal !== undefined) this.#deps.emit(revokedEvent(id, { signal }));
  }

  async #revokeAll(ids: readonly string[], signal: string | null, runs: Runs): Promise<void> {
    let failure: Error | null = null;
    for (const id of ids) {
      const step = (): Promise<void> =>
        signal === null ? this.#revokeWaiting(id, runs) : this.#terminate(id, signal, runs);
      try {
        await step();
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        failure ??= error as Error;
        void this.#keepTrying(id, step);
      }
    }
    if (failure !== null) throw failure;
  }

  /** A running task goes on. One that begins between the two steps is aborted: it had only just begun. */
  async #revokeWaiting(id: string, runs: Runs): Promise<void> {
    const { state } = await this.#deps.results.read(id);
    if (state === 'running') {
      if (runs().some(run => run.task.id === id)) this.#doomed.add(id);
      return;
    }
    // For a task that has not arrived, the worker that turns it away emits the event.
    await this.#cancel(id, state === 'waiting');
  }

  /** The ledger first: a run that is stopped before would be without an owner, and begin again. */
  async #terminate(id: string, signal: string, runs: Runs): Promise<void> {
    this.#terminating.set(id, signal);
    forgetOldest(this.#terminating);
    if (!(await this.#cancel(id, false))) return;
    // In other processes the next beat ends it, if not the same request.
    for (const run of runs()) if (run.task.id === id) run.stop('lost');
  }

  async #cancel(id: string, isEmitted: boolean): Promise<boolean> {
    if ((await this.#deps.ledger.cancel(id)) !== 'ok') return false;
    this.#revoked.add(id);
    forgetOldest(this.#revoked);
    this.#deps.onCancelled(id);
    if (isEmitted) this.#deps.emit(revokedEvent(id));
    return true;
  }

  async #keepTrying(id: string, step: () => Promise<unknown>): Promise<void> {
    const { clock, log } = this.#deps.runtime;
    for (let tries = 1; tries <= TRIES; tries++) {
      try {
        await step();
        return;
      } catch (error) {
        if (!isUnavailable(error)) return log.error({ error, task: id }, 'revoking failed');
        await sleep(clock, RETRY_MS);
      }
    }
    log.error({ task: id }, 'the store is away; a task could not be revoked');
  }
}

function forgetOldest(ids: {
  readonly size: number;
  keys(): Iterator<string>;
  delete(id: string): unknown;
}): void {
  if (ids.size <= MOST_REMEMBERED) return;
  const { value } = ids.keys().next() as IteratorYieldResult<string>;
  ids.delete(value);
}

/** Values that are remembered for each name, and names. Celery has no limit. */
const MOST_VALUES = 10_000;
const MOST_NAMES = 1_000;

/** What `revoke_by_stamped_headers` asks for: values by the name of the stamp. */
export type StampedHeaders = ReadonlyMap<string, readonly unknown[]>;

/** Reads the argument `headers`: a table, or texts `name=value`, as the command line sends them. */
export function readStampedHeaders(given: unknown): StampedHeaders {
  if (Array.isArray(given)) {
    const pairs = given.map(text => String(text).split('='));
    if (pairs.some(pair => pair.length < 2)) throw new TypeError('it needs name=value');
    return new Map(pairs.map(([name = '', value]) => [name, [value]]));
  }
  if (typeof given !== 'object' || given === null) throw new TypeError('it needs stamped headers');
  return new Map(Object.entries(given).map(([name, value]) => [name, asList(value)]));
}

/** The stamps that were revoked since this process started. As with Celery, a worker that starts later does not know them. */
export class RevokedStamps {
  readonly #values = new Map<string, Set<string>>();

  get isEmpty(): boolean {
    return this.#values.size === 0;
  }

  add(headers: StampedHeaders): void {
    for (const [name, values] of headers) {
      if (this.#values.size >= MOST_NAMES && !this.#values.has(name)) continue;
      const known = this.#values.get(name) ?? new Set();
      for (const value of values) if (known.size < MOST_VALUES) known.add(JSON.stringify(value));
      this.#values.set(name, known);
    }
  }

  matches(stamps: Stamps | undefined): boolean {
    return Object.entries(stamps ?? {}).some(([name, value]) => {
      const revoked = this.#values.get(name);
      return revoked !== undefined && asList(value).some(one => revoked.has(JSON.stringify(one)));
    });
  }
}

/** The stamps of a task that are among these; empty: none is. */
export function matchingStamps(
  headers: StampedHeaders,
  stamps: Stamps | undefined,
): readonly (readonly [string, unknown])[] {
  return [...headers].flatMap(([name, values]) => {
    const wanted = new Set(values.map(value => JSON.stringify(value)));
    const own = stamps === undefined || !Object.hasOwn(stamps, name) ? [] : asList(stamps[name]);
    return own
      .filter(value => wanted.has(JSON.stringify(value)))
      .map(value => [name, value] as const);
  });
}

/** As Python shows it: Celery's answers have it so. */
export function pythonRepr(value: unknown): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') {
    const text = value.replaceAll('\\', '\\\\');
    return text.includes("'") && !text.includes('"')
      ? `"${text}"`
      : `'${text.replaceAll("'", "\\'")}'`;
  }
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const pairs = Object.entries(value).map(
    ([name, item]) => `${pythonRepr(name)}: ${pythonRepr(item)}`,
  );
  return `{${pairs.join(', ')}}`;
}

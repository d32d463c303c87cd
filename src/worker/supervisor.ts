import { isUnavailable } from '../errors/error.ts';
import { type Death, isAsked } from '../ledger/death.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { Reaper, type ReaperSettings } from '../ledger/reaper.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import { RetryPace } from '../runtime/backoff.ts';

/** One child process, as the operating system shows it. */
export interface Child {
  /** The name its incarnations carry in the ledger. */
  readonly process: string;
  readonly pid: number;
  /** How it ended. */
  readonly exited: Promise<Death>;
  /** Resolves when another process has asked it to end for good: it drains by itself. */
  readonly dismissed: Promise<void>;
  /** Resolves when it wants to be replaced, with the reason; it works on until `retire` is called. */
  readonly worn: Promise<string>;
  /** Lets it finish what it has, take nothing more, and exit. */
  retire(): void;
  drain(): void;
  kill(): void;
}

export interface SupervisorSettings extends ReaperSettings {
  readonly processes: number;
  readonly intervalMs: number;
  /** How long children may drain before they are killed. */
  readonly shutdownTimeoutMs: number;
}

export interface SupervisorDeps {
  readonly ledger: Pick<Ledger, 'condemn' | 'reap'>;
  readonly runtime: Runtime;
  readonly settings: SupervisorSettings;
  /** Starts a child under this name. */
  readonly spawn: (process: string) => Child;
}

// A child that dies at once would otherwise be started a hundred times a second; one that lived is replaced at once.
const FIRST_RESTART_MS = 50;
const LONGEST_RESTART_MS = 5_000;
const LIVED_MS = 10_000;
/** Delay after a failed look; never shorter than after a successful one. */
const STORE_RETRY = { baseMs: 500, maxMs: 5_000 };
/** On top of the drain itself: time to release, deregister and exit. */
const EXIT_GRACE_MS = 7_000;

/** Keeps N worker processes alive. It reaps a child process as soon as it exits, and also looks for lost hosts. */
export class Supervisor {
  readonly #deps: SupervisorDeps;
  readonly #reaper: Reaper;
  readonly #children = new Set<Child>();
  /** Children that are not replaced. */
  readonly #dismissed = new WeakSet<Child>();
  /** Aborted, with the reason, when the children of before are out of date. */
  #current = new AbortController();

  constructor(deps: SupervisorDeps) {
    this.#deps = deps;
    this.#reaper = new Reaper(deps.ledger, deps.runtime, deps.settings);
  }

  get children(): readonly Child[] {
    return [...this.#children];
  }

  /** Replaces every child by a new one. Each finishes the tasks it has. */
  replace(why: string): void {
    const before = this.#current;
    this.#current = new AbortController();
    before.abort(why);
  }

  async run(signal: AbortSignal): Promise<void> {
    const ended = new AbortController();
    const positions = Array.from({ length: this.#deps.settings.processes }, () =>
      this.#keepAlive(signal),
    );
    // When every child was dismissed there is nothing left to supervise.
    const working = Promise.all(positions).finally(() => ended.abort());
    await Promise.all([working, this.#lookAround(AbortSignal.any([signal, ended.signal]))]);
  }

  /**
   * One position: a child, and after it the next one. An outdated child finishes its tasks while the next one replaces it.
   * Only one of those that are worn at a time: children with long tasks to finish must not fill the machine.
   */
  async #keepAlive(signal: AbortSignal): Promise<void> {
    const { runtime, spawn } = this.#deps;
    let restartMs = FIRST_RESTART_MS;
    let retired: Promise<void> = Promise.resolve();
    while (!signal.aborted) {
      const startedAt = runtime.clock.monotonic();
      const { signal: outdated } = this.#current;
      const child = spawn(`p:${runtime.random.token()}`);
      const gone = this.#seeOut(child, signal);
      const why = await Promise.race([gone, whenBoth(child.worn, retired), whenOutdated(outdated)]);
      if (typeof why === 'string' && !signal.aborted && !this.#dismissed.has(child)) {
        runtime.log.info({ pid: child.pid, why }, 'a worker process is replaced');
        child.retire();
        retired = Promise.all([retired, gone]).then(() => undefined);
        // Its error reaches the code that awaits it: the next child that wants to leave, or the end.
        retired.catch(() => undefined);
      } else await gone;
      if (signal.aborted || this.#dismissed.has(child)) break;
      if (outdated.aborted) {
        restartMs = FIRST_RESTART_MS;
        continue;
      }
      const hasLived = runtime.clock.monotonic() - startedAt > LIVED_MS;
      restartMs = hasLived ? FIRST_RESTART_MS : Math.min(restartMs * 2, LONGEST_RESTART_MS);
      await sleep(runtime.clock, restartMs, AbortSignal.any([signal, outdated]));
    }
    await retired;
  }

  /** Waits for a child to end, and reaps it. */
  async #seeOut(child: Child, signal: AbortSignal): Promise<void> {
    this.#children.add(child);
    const unfollow = this.#drainOn(signal, child);
    const death = await child.exited;
    unfollow();
    this.#children.delete(child);
    await this.#reap(child, death, signal);
  }

  /** Its death is certain: no lease has to run out. Repeated until the store has it. */
  async #reap(child: Child, death: Death, signal: AbortSignal): Promise<void> {
    const { runtime, settings } = this.#deps;
    for (;;) {
      try {
        const { process, pid } = child;
        const returned = await this.#reaper.condemn({ kind: 'process', process, death });
        const isExpected = signal.aborted || isAsked(death);
        runtime.log[isExpected ? 'info' : 'warn'](
          { pid, how: death.kind, why: death.message, returned },
          'a worker process ended',
        );
        return;
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        runtime.log.warn({ error, pid: child.pid }, 'a death cannot be reported to the store yet');
        // While stopping, the lease runs out soon enough.
        if (signal.aborted) return;
        await sleep(runtime.clock, settings.intervalMs, signal);
      }
    }
  }

  #drainOn(signal: AbortSignal, child: Child): () => void {
    const { runtime, settings } = this.#deps;
    let cancel = (): void => undefined;
    let isOver = false;
    const drain = (): void => {
      if (isOver) return;
      child.drain();
      cancel();
      cancel = runtime.clock.timer(settings.shutdownTimeoutMs + EXIT_GRACE_MS, () => child.kill());
    };
    void child.dismissed.then(() => {
      this.#dismissed.add(child);
      drain();
    });
    if (signal.aborted) drain();
    else signal.addEventListener('abort', drain, { once: true });
    return () => {
      isOver = true;
      signal.removeEventListener('abort', drain);
      cancel();
    };
  }

  /** The workers of a lost host have no supervisor: every supervisor looks after all. */
  async #lookAround(signal: AbortSignal): Promise<void> {
    const { runtime, settings } = this.#deps;
    const pace = new RetryPace(runtime, STORE_RETRY, {
      failing: 'the store cannot be used; no task is brought back',
      over: 'the store can be used again',
    });
    let waitMs = settings.intervalMs;
    for (;;) {
      await sleep(runtime.clock, waitMs, signal);
      if (signal.aborted) return;
      waitMs = settings.intervalMs;
      try {
        await this.#reaper.look();
        pace.succeeded();
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        waitMs = Math.max(waitMs, pace.failed(error));
      }
    }
  }
}

const whenOutdated = (signal: AbortSignal): Promise<string> =>
  new Promise(resolve => {
    const outdated = (): void => resolve(String(signal.reason));
    if (signal.aborted) outdated();
    else signal.addEventListener('abort', outdated, { once: true });
  });

/** The wish, once no other child is leaving. */
async function whenBoth(wish: Promise<string>, before: Promise<void>): Promise<string> {
  const why = await wish;
  await before;
  return why;
}

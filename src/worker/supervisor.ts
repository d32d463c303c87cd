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
  /** Resolves when it has loaded its handlers. */
  readonly loaded: Promise<void>;
  /** Resolves when another process has asked it to end for good: it drains by itself. */
  readonly dismissed: Promise<void>;
  /** Resolves when it wants to be replaced, with the reason; it works on until `retire` is called. */
  readonly worn: Promise<string>;
  /** Lets it finish what it has, take nothing more, and exit. */
  retire(): void;
  drain(): void;
  /** @param why how its end is explained; left out: it did not end in time */
  kill(why?: Death): void;
}

export interface SupervisorSettings extends ReaperSettings {
  readonly processes: number;
  readonly intervalMs: number;
  /** How long children may drain before they are killed. */
  readonly shutdownTimeoutMs: number;
  /** The files and patterns that children load, for people who look for the one that does not end. */
  readonly modules: readonly string[];
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
/** A module that waits for a silent server would load forever. Its isolates, which load after it, have 60 s of this. */
const LOAD_TIMEOUT_MS = 120_000;
/** How long a worn child waits for those that finish their tasks: one of these tasks may never end. */
const LEAVE_PATIENCE_MS = 3_600_000;
/** However long they take, no more than these finish their tasks beside each other: they would fill the machine. */
const MOST_LEAVING = 4;
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
   * Those that are worn leave one at a time, because children with long tasks must not fill the machine; after an hour
   * the next one leaves all the same.
   */
  async #keepAlive(signal: AbortSignal): Promise<void> {
    const { runtime, spawn } = this.#deps;
    let restartMs = FIRST_RESTART_MS;
    const leaving = new Set<Promise<void>>();
    while (!signal.aborted) {
      let loadedAt = Infinity;
      const { signal: outdated } = this.#current;
      const child = spawn(`p:${runtime.random.token()}`);
      void child.loaded.then(() => void (loadedAt = runtime.clock.monotonic()));
      const gone = this.#seeOut(child, signal);
      const turn = this.#turnToLeave(child, leaving, AbortSignal.any([signal, outdated]));
      const why = await Promise.race([gone, turn, whenOutdated(outdated)]);
      if (typeof why === 'string' && !signal.aborted && !this.#dismissed.has(child)) {
        runtime.log.info({ pid: child.pid, why }, 'a worker process is replaced');
        child.retire();
        leaving.add(gone);
        // An error stays, for the code that awaits it: the next child that wants to leave, or the end.
        gone.then(
          () => leaving.delete(gone),
          () => undefined,
        );
      } else await gone;
      if (signal.aborted || this.#dismissed.has(child)) break;
      if (outdated.aborted) {
        restartMs = FIRST_RESTART_MS;
        continue;
      }
      const hasLived = runtime.clock.monotonic() - loadedAt > LIVED_MS;
      restartMs = hasLived ? FIRST_RESTART_MS : Math.min(restartMs * 2, LONGEST_RESTART_MS);
      await sleep(runtime.clock, restartMs, AbortSignal.any([signal, outdated]));
    }
    await Promise.all(leaving);
  }

  /** The reason why it wants to be replaced, once there is a place among those that leave. */
  async #turnToLeave(
    child: Child,
    leaving: ReadonlySet<Promise<void>>,
    signal: AbortSignal,
  ): Promise<string> {
    const { clock, log } = this.#deps.runtime;
    const why = await child.worn;
    while (leaving.size >= MOST_LEAVING) await Promise.race(leaving);
    if (leaving.size === 0) return why;
    const over = new AbortController();
    void child.exited.then(() => over.abort());
    const ended = AbortSignal.any([signal, over.signal]);
    const late = sleep(clock, LEAVE_PATIENCE_MS, ended).then(() => {
      if (!ended.aborted)
        log.warn(
          { pid: child.pid, why },
          'a worker process is replaced although older ones still run tasks',
        );
    });
    try {
      await Promise.race([Promise.all(leaving), late]);
    } finally {
      over.abort();
    }
    return why;
  }

  /** Waits for a child to end, and reaps it. */
  async #seeOut(child: Child, signal: AbortSignal): Promise<void> {
    this.#children.add(child);
    const unfollow = this.#drainOn(signal, child);
    const unwatch = this.#limitLoading(child);
    const death = await child.exited;
    unwatch();
    unfollow();
    this.#children.delete(child);
    await this.#reap(child, death, signal);
  }

  #limitLoading(child: Child): () => void {
    const { runtime, settings } = this.#deps;
    const cancel = runtime.clock.timer(LOAD_TIMEOUT_MS, () => {
      const within = `within ${LOAD_TIMEOUT_MS / 1_000} s`;
      runtime.log.error(
        { pid: child.pid, modules: settings.modules },
        `a worker process has not loaded its config and handlers ${within}: look at what these modules do while they load`,
      );
      child.kill({ kind: 'exited', message: `killed: it did not load its handlers ${within}` });
    });
    void child.loaded.then(cancel);
    return cancel;
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

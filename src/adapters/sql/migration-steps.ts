import { isOutlastError, outlastError } from '../../errors/error.ts';
import { backoffMs } from '../../runtime/backoff.ts';
import { sleep, systemClock, systemRandom } from '../../runtime/runtime.ts';
import type { MigrateOptions } from './dialect.ts';

/** How a change of a table waits for the sessions that use it. */
export interface LockPatience {
  /** Everything that comes after us waits as long as we do, so a single wait is short. */
  readonly timeoutMs: number;
  readonly attempts: number;
  /** Longest pause between two attempts: others get their turn. */
  readonly maxPauseMs: number;
}

/** About two minutes in all. */
const ATTEMPTS = 30;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 8_000;
/** A statement that has taken this long is reported, and again whenever as much time has passed once more. */
const FIRST_REPORT_MS = 1_000;
const NEXT_REPORT_MS = 5_000;
const LOOK_MS = 100;

export const lockPatience = (timeoutMs: number): LockPatience => ({
  timeoutMs,
  attempts: ATTEMPTS,
  maxPauseMs: MAX_PAUSE_MS,
});

/** What a statement of a migration is doing, as its server says it. */
export interface StatementLook {
  /** Sessions that it waits for, as people can find them. */
  readonly blockers: readonly string[];
  readonly progress: string | null;
}

/** Reports how the statements of a migration get on. */
export class MigrationWatch {
  readonly #report: (line: string) => void;
  #blockers: readonly string[] = [];

  constructor({ onProgress = () => undefined }: MigrateOptions) {
    this.#report = onProgress;
  }

  /** The sessions that a statement waited for last, in words. */
  get blockers(): string {
    return this.#blockers.length === 0
      ? 'sessions that have ended since'
      : this.#blockers.join('; ');
  }

  report(line: string): void {
    this.#report(line);
  }

  /** Runs a statement and looks at it meanwhile. `look` may fail: it only helps people. */
  async during<T>(
    label: string,
    look: () => Promise<StatementLook>,
    run: () => Promise<T>,
  ): Promise<T> {
    const ended = new AbortController();
    const watching = this.#follow(label, look, ended.signal);
    try {
      return await run();
    } catch (error) {
      ended.abort();
      // A last look may tell what the statement waited for. It needs a connection, and there may be none.
      await Promise.race([watching, sleep(systemClock, LOOK_MS)]);
      throw error;
    } finally {
      ended.abort();
    }
  }

  async #follow(
    label: string,
    look: () => Promise<StatementLook>,
    ended: AbortSignal,
  ): Promise<void> {
    const startedMs = systemClock.monotonic();
    let nextReportMs = FIRST_REPORT_MS;
    for (;;) {
      await sleep(systemClock, LOOK_MS, ended);
      if (ended.aborted) return;
      const found = await look().catch(() => null);
      if (found !== null && found.blockers.length > 0) this.#blockers = found.blockers;
      const elapsedMs = systemClock.monotonic() - startedMs;
      if (ended.aborted || elapsedMs < nextReportMs) continue;
      nextReportMs = elapsedMs + NEXT_REPORT_MS;
      this.#report(`${label}, ${Math.round(elapsedMs / 1_000)} s${said(found)}`);
    }
  }
}

function said(found: StatementLook | null): string {
  if (found === null) return '';
  if (found.blockers.length > 0) return `: waits for ${found.blockers.join('; ')}`;
  return found.progress === null ? '' : `: ${found.progress}`;
}

interface LockedStep {
  /** Of the migration. */
  readonly name: () => string;
  readonly patience: LockPatience;
  readonly watch: MigrationWatch;
  /** Whether an error says that a lock was not to be had: nothing has happened then. */
  readonly isLocked: (error: unknown) => boolean;
}

/** Runs a step until it gets its locks, with pauses in which everybody else goes on. */
export async function retryLocked<T>(step: LockedStep, run: () => Promise<T>): Promise<T> {
  const { name, patience, watch, isLocked } = step;
  const policy = { baseMs: FIRST_PAUSE_MS, maxMs: patience.maxPauseMs, jitter: 'full' } as const;
  for (let attempt = 1; ; attempt++) {
    try {
      return await run();
    } catch (error) {
      if (!isLocked(error)) throw error;
      if (attempt >= patience.attempts) throw blocked(name(), attempt, watch.blockers, error);
      const pauseMs = Math.ceil(backoffMs(policy, attempt - 1, systemRandom.next()));
      watch.report(
        `${name()}: a table is in use by ${watch.blockers}; attempt ${attempt + 1} of ${patience.attempts} in ${pauseMs} ms`,
      );
      await sleep(systemClock, pauseMs);
    }
  }
}

function blocked(name: string, attempts: number, blockers: string, cause: unknown): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `migration ${name} found a table in use ${attempts} times: by ${blockers}`,
    hint: 'End those transactions, or wait for their end, then run: npx outlast migrate',
    fields: {},
    cause: isOutlastError(cause) ? cause.cause : cause,
  });
}

/** One line of a statement, short enough for a message. */
export function shortened(sql: string): string {
  const line = sql.replaceAll(/\s+/g, ' ').trim();
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
}

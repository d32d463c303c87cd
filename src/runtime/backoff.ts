import { type Runtime, sleep } from './runtime.ts';

export type Jitter = 'none' | 'tenth' | 'full';

export interface BackoffPolicy {
  readonly baseMs: number;
  readonly maxMs: number;
  readonly jitter: Jitter;
}

/**
 * Milliseconds to wait after the `retries`-th failure (0 for the first): doubles each time, capped.
 * `tenth` adds up to a tenth of the base, as the relay's documented formula does; `full` draws from the whole
 * range, so that a thousand tasks that failed together do not return together.
 */
export function backoffMs(policy: BackoffPolicy, retries: number, random: number): number {
  const doubled = policy.baseMs * 2 ** Math.min(retries, 52);
  switch (policy.jitter) {
    case 'none':
      return Math.min(doubled, policy.maxMs);
    case 'tenth':
      return Math.min(doubled + random * policy.baseMs * 0.1, policy.maxMs);
    case 'full':
      return Math.min(doubled, policy.maxMs) * random;
  }
}

/** What a loop logs when an outage begins, and when it is over. */
export interface RetryWords {
  readonly failing: string;
  readonly over: string;
}

/**
 * The waits of one loop after failures: each is longer than the one before, half of it random, so that processes that
 * failed together do not return together. An outage is logged when it begins and when it is over, not at every try.
 */
export class RetryPace {
  readonly #runtime: Pick<Runtime, 'clock' | 'random' | 'log'>;
  readonly #policy: BackoffPolicy;
  readonly #words: RetryWords;
  #failures = 0;

  /** @param policy the longest wait is also how late the end of the outage may be noticed */
  constructor(
    runtime: Pick<Runtime, 'clock' | 'random' | 'log'>,
    policy: Omit<BackoffPolicy, 'jitter'>,
    words: RetryWords,
  ) {
    this.#runtime = runtime;
    this.#policy = { ...policy, jitter: 'full' };
    this.#words = words;
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /** It has failed once more: how long to wait. */
  failed(error: unknown, fields: Readonly<Record<string, unknown>> = {}): number {
    const { log, random } = this.#runtime;
    if (this.#failures === 0) log.warn({ ...fields, error }, this.#words.failing);
    return backoffMs(this.#policy, this.#failures++, 0.5 + random.next() / 2);
  }

  /** Waits after a failure. */
  async wait(error: unknown, signal?: AbortSignal): Promise<void> {
    await sleep(this.#runtime.clock, this.failed(error), signal);
  }

  succeeded(): void {
    if (this.#failures === 0) return;
    this.#runtime.log.info({ failures: this.#failures }, this.#words.over);
    this.#failures = 0;
  }
}

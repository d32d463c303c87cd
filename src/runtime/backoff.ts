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

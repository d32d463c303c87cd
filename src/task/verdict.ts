import { durationMs, type Duration } from './duration.ts';

const VERDICT: unique symbol = Symbol.for('outlast.verdict') as never;

/** A handler's decision other than a plain result. Verdicts are values: return them. */
export type Verdict =
  | { readonly [VERDICT]: 'retry'; readonly delayMs: number; readonly why: string }
  | { readonly [VERDICT]: 'discard'; readonly why: string }
  | { readonly [VERDICT]: 'bury'; readonly why: string };

/**
 * Run again after `delay`. Spends an attempt.
 *
 * @example
 * if (reply === 'busy') return retryIn('5m', 'gateway busy');
 */
export function retryIn(delay: Duration, why = ''): Verdict {
  return { [VERDICT]: 'retry', delayMs: durationMs(delay, 'retryIn'), why };
}

/**
 * Done without a result: nothing more to do, no dead letter.
 *
 * @example
 * if (order.cancelled) return discard('order cancelled');
 */
export function discard(why = ''): Verdict {
  return { [VERDICT]: 'discard', why };
}

/**
 * A dead letter now, without further attempts.
 *
 * @example
 * if (input.cents < 0) return bury('negative amount');
 */
export function bury(why = ''): Verdict {
  return { [VERDICT]: 'bury', why };
}

export function asVerdict(value: unknown): {
  readonly kind: 'retry' | 'discard' | 'bury';
  readonly why: string;
  readonly delayMs: number;
} | null {
  if (typeof value !== 'object' || value === null || !(VERDICT in value)) return null;
  const verdict = value as Verdict;
  return {
    kind: verdict[VERDICT],
    why: verdict.why,
    delayMs: 'delayMs' in verdict ? verdict.delayMs : 0,
  };
}

import { isOutlastError, isUnavailable } from '../errors/error.ts';

/** A response in the format of RFC 9457. */
export interface Problem {
  readonly status: 429 | 503;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const HEADERS = {
  'content-type': 'application/problem+json',
  'cache-control': 'no-store',
} as const;

/**
 * The response to an error that is about load and not about the request; null for every other error. It contains no
 * names of keys, queues or servers.
 */
export function problemOf(error: unknown, random: () => number = Math.random): Problem | null {
  if (isOutlastError(error, 'ERR_ADMISSION_REJECTED')) {
    const seconds = retryAfterSeconds(error.retryAfterMs, random());
    const detail = `A limit is reached. Ask again in ${seconds} s.`;
    return {
      status: 429,
      headers: { ...HEADERS, 'retry-after': String(seconds) },
      body: bodyOf(429, 'Too Many Requests', detail, error.code),
    };
  }
  if (!isOutlastError(error) || !isUnavailable(error)) return null;
  const detail = 'A store or broker cannot be reached. Nothing was accepted for certain.';
  const body = bodyOf(503, 'Service Unavailable', detail, error.code);
  return { status: 503, headers: HEADERS, body };
}

/**
 * Whole seconds, never sooner than asked for. Rounding would bring callers with different times together again, so it
 * is spread once more: over a quarter of the wait, and over two seconds at least.
 */
export function retryAfterSeconds(retryAfterMs: number, random: number): number {
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
  return seconds + Math.floor(random * Math.max(2, Math.ceil(seconds / 4) + 1));
}

function bodyOf(status: number, title: string, detail: string, code: string): string {
  return JSON.stringify({ type: 'about:blank', title, status, detail, code });
}

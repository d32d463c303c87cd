import type { InputIssue } from '../errors/codes.ts';
import { isOutlastError, isUnavailable, type OutlastError } from '../errors/error.ts';
import { maskSecrets } from '../errors/mask-secrets.ts';

/** A response in the format of RFC 9457. */
export interface Problem {
  readonly status: 400 | 413 | 422 | 429 | 503;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const HEADERS = {
  'content-type': 'application/problem+json',
  'cache-control': 'no-store',
} as const;

/** How soon a caller may ask again while a store or broker is away: it is, at least, not back at once. */
const AWAY_MS = 2_000;
const MOST_ISSUES = 20;
const MOST_CHARS = 200;

/**
 * The response to an error that is about the request or about load; null for every other error, which is the application's own. It
 * contains no names of tasks, keys, queues or servers.
 */
export function problemOf(error: unknown, random: () => number = Math.random): Problem | null {
  if (!isOutlastError(error)) return null;
  if (isOutlastError(error, 'ERR_ADMISSION_REJECTED')) {
    const seconds = retryAfterSeconds(error.retryAfterMs, random());
    const detail = `A limit is reached. Ask again in ${seconds} s.`;
    return withRetryAfter(problem(429, 'Too Many Requests', detail, error), seconds);
  }
  if (isUnavailable(error)) {
    const detail = 'A store or broker cannot be reached. Nothing was accepted for certain.';
    const seconds = retryAfterSeconds(AWAY_MS, random());
    return withRetryAfter(problem(503, 'Service Unavailable', detail, error), seconds);
  }
  return problemOfInput(error);
}

/** What a caller has sent is not what the task takes. */
function problemOfInput(error: OutlastError): Problem | null {
  if (isOutlastError(error, 'ERR_INPUT_INVALID'))
    return problem(400, 'Bad Request', 'The input is not valid.', error, shownIssues(error.issues));
  if (isOutlastError(error, 'ERR_INPUT_NOT_JSON')) {
    const issues = shownIssues([{ path: error.path, message: 'It cannot be sent as JSON.' }]);
    return problem(400, 'Bad Request', 'The input is not valid.', error, issues);
  }
  switch (error.code) {
    case 'ERR_NAME_UNSAFE':
      return problem(400, 'Bad Request', 'A key or name in the input cannot be used.', error);
    case 'ERR_PAYLOAD_TOO_LARGE':
      return problem(413, 'Content Too Large', 'The input is too large.', error);
    case 'ERR_IDEMPOTENCY_MISMATCH':
      return problem(
        422,
        'Unprocessable Content',
        'This idempotency key was used with another input.',
        error,
      );
    default:
      return null;
  }
}

/** Schemas are the user's, and so are these texts; they are bounded, and secrets in URLs masked. */
const shownIssues = (issues: readonly InputIssue[]): readonly InputIssue[] =>
  issues.slice(0, MOST_ISSUES).map(({ path, message }) => ({
    path: path.slice(0, MOST_CHARS),
    message: maskSecrets(message).slice(0, MOST_CHARS),
  }));

/**
 * Whole seconds, never sooner than asked for. Rounding would bring callers with different times together again, so it
 * is spread once more: over a quarter of the wait, and over two seconds at least.
 */
export function retryAfterSeconds(retryAfterMs: number, random: number): number {
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
  return seconds + Math.floor(random * Math.max(2, Math.ceil(seconds / 4) + 1));
}

function withRetryAfter(made: Problem, seconds: number): Problem {
  return { ...made, headers: { ...made.headers, 'retry-after': String(seconds) } };
}

function problem(
  status: Problem['status'],
  title: string,
  detail: string,
  ...[{ code }, issues]: readonly [OutlastError, (readonly InputIssue[])?]
): Problem {
  const shown = issues === undefined ? {} : { issues };
  const body = JSON.stringify({ type: 'about:blank', title, status, detail, code, ...shown });
  return { status, headers: HEADERS, body };
}

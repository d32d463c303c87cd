import type { IncomingMessage } from 'node:http';

/** Nothing is loaded from other sites, nothing inline runs, and no site may frame the page. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join('; ');

/** For every response, refusals and streams included. */
export const SECURE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
};

const LOCAL_HOST = /^(127\.0\.0\.1|localhost)(:\d{1,5})?$/i;
const JSON_TYPE = /^application\/json\s*(;|$)/i;

/** Why a request is refused. */
export interface Refusal {
  readonly status: 400 | 403 | 404 | 409 | 413 | 415 | 500 | 503;
  readonly message: string;
}

/**
 * Null when the request may go on. A page of another site may resolve its own name to 127.0.0.1 and would then have the
 * same origin as this page; what it cannot do is send our name as the Host. Actions are for this page alone: a form or
 * script of another site cannot trigger them.
 */
export function refusalOf({ method, headers }: IncomingMessage): Refusal | null {
  if (!LOCAL_HOST.test(headers.host ?? ''))
    return { status: 403, message: 'this page answers to 127.0.0.1 and localhost only' };
  if (method === 'GET') return null;
  if (!isOwnPage(headers)) return { status: 403, message: 'only the page itself may do this' };
  if (JSON_TYPE.test(headers['content-type'] ?? '')) return null;
  return { status: 415, message: 'send JSON: content-type application/json' };
}

/** Each of these headers that is present must name this page, and one of them must be present. */
function isOwnPage(headers: IncomingMessage['headers']): boolean {
  const { origin, host } = headers;
  const site = headers['sec-fetch-site'];
  if (site === undefined && origin === undefined) return false;
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false;
  return origin === undefined || origin === `http://${host}`;
}

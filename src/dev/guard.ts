import type { Context, MiddlewareHandler } from 'hono';

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

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
};

export const secureHeaders: MiddlewareHandler = async (context, next) => {
  // Set first: the headers of a stream are sent once it has begun.
  for (const [name, value] of Object.entries(HEADERS)) context.header(name, value);
  await next();
};

const LOCAL_HOST = /^(127\.0\.0\.1|localhost)(:\d{1,5})?$/i;

/**
 * A page of another site may resolve its own name to 127.0.0.1 and would then have the same
 * origin as this page. What it cannot do is send our name as the Host.
 */
export const refuseForeignHost: MiddlewareHandler = async (context, next) => {
  if (LOCAL_HOST.test(context.req.header('host') ?? '')) return await next();
  return refuse(context, 403, 'this page answers to 127.0.0.1 and localhost only');
};

/** Actions are for this page alone: a form or script of another site cannot trigger them. */
export const refuseForeignAction: MiddlewareHandler = async (context, next) => {
  if (context.req.method === 'GET') return await next();
  if (!isOwnPage(context)) return refuse(context, 403, 'only the page itself may do this');
  const type = context.req.header('content-type') ?? '';
  if (/^application\/json\s*(;|$)/i.test(type)) return await next();
  return refuse(context, 415, 'send JSON: content-type application/json');
};

/** Each of these headers that is present must name this page, and one of them must be present. */
function isOwnPage(context: Context): boolean {
  const site = context.req.header('sec-fetch-site');
  const origin = context.req.header('origin');
  if (site === undefined && origin === undefined) return false;
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false;
  return origin === undefined || origin === `http://${context.req.header('host')}`;
}

export function refuse(
  context: Context,
  status: 400 | 403 | 404 | 409 | 413 | 415 | 500 | 503,
  message: string,
): Response {
  return context.json({ error: { message } }, status);
}

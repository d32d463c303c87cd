import { problemOf } from './problem-of.ts';
import { surroundRequest, type AnyOutlast, type RequestContextOptions } from './request-context.ts';

export type { AnyOutlast, RequestContextOptions };

/** The part of Hono's request that is needed. */
export interface RequestLike {
  header(name: string): string | undefined;
}

/** The part of Hono's context that is needed. */
export interface ContextLike {
  readonly req: RequestLike;
}

/** A middleware of Hono, by its shape. */
export type Middleware<C extends ContextLike> = (
  context: C,
  next: () => Promise<void>,
) => Promise<void>;

/** An error handler of Hono, by its shape. */
export type ErrorHandler<C> = (error: Error, context: C) => Response | Promise<Response>;

/**
 * Binds the context of each request, so that what is sent in it carries the trace it came with (`traceparent`, `tracestate`) and,
 * where the configuration says so (`context`), its `requestId` (the variable `requestId` of Hono's middleware of that name, or else
 * the header `x-request-id`) and what `options.context` returns for Hono's context.
 *
 * @example
 * app.use(outlastContext(outlast)); // before the routes
 */
export function outlastContext<C extends ContextLike = ContextLike>(
  outlast: AnyOutlast,
  options: RequestContextOptions<C> = {},
): Middleware<C> {
  return (context, next) => {
    const { req } = context;
    const id = (context as { get?(name: string): unknown }).get?.('requestId');
    const reader = { id, header: (name: string) => req.header(name) };
    return surroundRequest(outlast, options, [context, reader])(next);
  };
}

/**
 * Responds to Outlast's errors that are about the request or about load, as `application/problem+json`: 400 with the issues when an
 * input is not valid (413: too large; 422: an idempotency key of another input), 429 with `Retry-After` when a limit is reached,
 * 503 with `Retry-After` when a store or broker is away. Every other error goes to `otherwise`; without one it is answered as Hono
 * itself does.
 *
 * @example
 * app.onError(outlastErrors());
 */
export function outlastErrors<C = unknown>(
  otherwise: ErrorHandler<C> = answerAsHono,
): ErrorHandler<C> {
  return (error, context) => {
    const problem = problemOf(error);
    if (problem === null) return otherwise(error, context);
    return answer(context, problem.body, { status: problem.status, headers: problem.headers });
  };
}

/** Hono shows its own handler to nobody. An `HTTPException` brings its response along. */
function answerAsHono(error: Error, context: unknown): Response {
  const { getResponse } = error as { readonly getResponse?: () => Response };
  if (getResponse !== undefined) {
    const response = getResponse.call(error);
    return answer(context, response.body, response);
  }
  // oxlint-disable-next-line no-console -- as Hono does: an error of the application must be seen.
  console.error(error);
  return answer(context, 'Internal Server Error', {
    status: 500,
    headers: { 'content-type': 'text/plain; charset=UTF-8' },
  });
}

interface Answering {
  newResponse(body: string | ReadableStream | null, init: object): Response;
}

/** With the headers that were set before. */
const answer = (context: unknown, body: string | ReadableStream | null, init: object): Response =>
  (context as Answering).newResponse(body, init);

import { readNodeRequest, type RequestLike } from './node-request.ts';
import { problemOf } from './problem-of.ts';
import { surroundRequest, type AnyOutlast, type RequestContextOptions } from './request-context.ts';

export type { AnyOutlast, RequestContextOptions, RequestLike };

/** The part of Express's response that is needed; Node's own has it too. */
export interface ResponseLike {
  readonly headersSent: boolean;
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

/** An error middleware: Express recognizes it by its four parameters. */
export type ErrorMiddleware = (
  error: unknown,
  request: unknown,
  response: ResponseLike,
  next: (error?: unknown) => void,
) => void;

/** A middleware of Express, by its shape. */
export type ContextMiddleware<R extends RequestLike> = (
  request: R,
  response: unknown,
  next: () => void,
) => void;

/**
 * Binds the context of each request, so that what is sent in it carries the trace it came with (`traceparent`, `tracestate`) and,
 * where the configuration says so (`context`), its `requestId` (`request.id`, or else the header `x-request-id`) and what
 * `options.context` returns.
 *
 * @example
 * app.use(outlastContext(outlast)); // before the routes
 */
export function outlastContext<R extends RequestLike = RequestLike>(
  outlast: AnyOutlast,
  options: RequestContextOptions<R> = {},
): ContextMiddleware<R> {
  return (request, _response, next) =>
    surroundRequest(outlast, options, [request, readNodeRequest(request)])(next);
}

/**
 * Responds to Outlast's errors that are about the request or about load, as `application/problem+json`: 400 with the issues when an
 * input is not valid (413: too large; 422: an idempotency key of another input), 429 with `Retry-After` when a limit is reached,
 * 503 with `Retry-After` when a store or broker is away. Every other error goes on to your own middleware.
 *
 * @example
 * app.use(outlastErrors()); // after the routes
 */
export function outlastErrors(): ErrorMiddleware {
  return (error, _request, response, next) => {
    const problem = problemOf(error);
    if (problem === null || response.headersSent) return next(error);
    response.statusCode = problem.status;
    for (const [name, value] of Object.entries(problem.headers)) response.setHeader(name, value);
    response.end(problem.body);
  };
}

import { problemOf } from './problem-of.ts';

/** The part of Hono's context that is needed. */
export interface ContextLike {
  /** What a handler threw, if one did. */
  readonly error: Error | undefined;
  res: Response;
}

/** A middleware of Hono, by its shape. */
export type Middleware = (context: ContextLike, next: () => Promise<void>) => Promise<void>;

/**
 * Responds to Outlast's errors that are about load: 429 with `Retry-After` when a limit is reached, 503 when a store or
 * broker is away, both as `application/problem+json`. Every other error keeps the response of your `onError`.
 *
 * @example
 * app.use(outlastErrors()); // before the routes
 */
export function outlastErrors(): Middleware {
  return async (context, next) => {
    await next();
    const problem = problemOf(context.error);
    if (problem === null) return;
    const { status, headers, body } = problem;
    // Hono merges the headers of the previous response; those of `onError` do not belong to this one.
    context.res = undefined as unknown as Response;
    context.res = new Response(body, { status, headers });
  };
}

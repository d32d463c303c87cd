import { problemOf } from './problem-of.ts';

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

/**
 * Responds to Outlast's errors that are about load: 429 with `Retry-After` when a limit is reached, 503 when a store or
 * broker is away, both as `application/problem+json`. Every other error goes on to your own middleware.
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

import type { Service } from '../runtime/runtime.ts';
import { AppServices, type LifeOptions } from './app-services.ts';
import { readNodeRequest, type RequestLike } from './node-request.ts';
import { problemOf } from './problem-of.ts';
import {
  surroundRequest,
  type AnyOutlast,
  type Around,
  type RequestContextOptions,
} from './request-context.ts';

export type { AnyOutlast, LifeOptions, RequestContextOptions, RequestLike };

/** Options of `outlastPlugin`. */
export interface OutlastPluginOptions<R extends RequestLike = RequestLike>
  extends LifeOptions, RequestContextOptions<R> {
  /** Starts what runs in this process: when the application is ready, which fails if one cannot be started. */
  readonly services?: () => readonly Promise<Service>[];
  /** Your own handler, for all other errors: Fastify takes one for each scope. Left out: Fastify's, or the one that you have set before. */
  errorHandler?(error: Error, request: R, reply: ReplyLike): unknown;
}

/** The part of Fastify's reply that is needed. */
export interface ReplyLike {
  code(status: number): ReplyLike;
  header(name: string, value: string): unknown;
  headers(headers: Record<string, string>): ReplyLike;
  send(body: string): unknown;
}

/** The part of Fastify's instance that is needed. */
export interface FastifyLike<R> {
  decorate(name: string, value: unknown): unknown;
  addHook(name: 'onRequest', hook: RequestHook<R>): unknown;
  addHook(name: 'preValidation', hook: RequestHook<R>): unknown;
  addHook(name: 'onSend', hook: AnswerHook<R>): unknown;
  addHook(name: 'preClose' | 'onReady' | 'onClose', hook: () => Promise<void>): unknown;
  setErrorHandler(handler: (error: Error, request: R, reply: ReplyLike) => unknown): unknown;
}

/** A hook of a request in the style of callbacks. */
export type RequestHook<R> = (request: R, reply: unknown, done: () => void) => void;

/** A hook of an answer in the style of callbacks. */
export type AnswerHook<R> = (
  request: R,
  reply: ReplyLike,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
) => void;

/**
 * Outlast in a Fastify application:
 *
 * - `app.outlast` is the instance;
 * - what is sent in a request carries the trace it came with and, where the configuration says so (`context`), its `requestId` and
 *   what `options.context` returns;
 * - Outlast's errors that are about the request or about load are answered as `application/problem+json`: 400 with the issues when
 *   an input is not valid (413: too large; 422: an idempotency key of another input), 429 with `Retry-After` when a limit is
 *   reached, 503 with `Retry-After` when a store or broker is away. Every other error goes on to `errorHandler`;
 * - `services` start when the application is ready. When it closes, they drain after the last request has ended, then the instance
 *   is closed. Fastify closes last what was registered first: register your database before this.
 *
 * @throws ERR_OPTION_UNIT, ERR_OPTION_RANGE
 *
 * @example
 * await app.register(outlastPlugin, {
 *   outlast,
 *   services: () => [startWorker(outlast, { tasks: [chargeHandler] }), startResurrector(outlast)],
 * });
 */
export async function outlastPlugin<R extends RequestLike = RequestLike>(
  app: FastifyLike<R>,
  options: OutlastPluginOptions<R>,
): Promise<void> {
  const { outlast, services } = options;
  const own = new AppServices(options);
  app.decorate('outlast', outlast);
  const around = new WeakMap<R, Around>();
  app.addHook('onRequest', (request, _reply, done) => {
    const run = surroundRequest(outlast, options, [request, readNodeRequest(request)]);
    around.set(request, run);
    run(done);
  });
  // A body arrives in the events of its socket, outside of what surrounded the hook before.
  app.addHook('preValidation', (request, _reply, done) => {
    const run = around.get(request);
    if (run === undefined) done();
    else run(done);
  });
  app.setErrorHandler((error, request, reply) => {
    const problem = problemOf(error);
    if (problem === null) {
      if (options.errorHandler) return options.errorHandler(error, request, reply);
      // To the handler that was there before, with the same error.
      throw error;
    }
    return reply
      .code(problem.status)
      .headers({ ...problem.headers })
      .send(problem.body);
  });
  if (services !== undefined) app.addHook('onReady', () => own.start(services));
  app.addHook('onClose', () => own.close());
  hangUpWhenClosing(app);
}

/**
 * A client keeps its connection after the answer, and the application would wait for its end (72 s) before it closes anything: longer
 * than most that stop a process wait for that.
 */
function hangUpWhenClosing<R>(app: FastifyLike<R>): void {
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close');
    done(null, payload);
  });
}

// What the package `fastify-plugin` would do: the plugin is one with the application that registers it.
Object.assign(outlastPlugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'outlast',
  [Symbol.for('plugin-meta')]: { name: 'outlast', fastify: '>=4.29.0' },
});

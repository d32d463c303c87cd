import { Catch, Inject, Module } from '@nestjs/common';
import { APP_FILTER, DiscoveryModule, DiscoveryService, HttpAdapterHost } from '@nestjs/core';
import { CONTEXT, type Outlast } from '../app/outlast.ts';
import { errorName } from '../errors/error-name.ts';
import { sleep, type Service } from '../runtime/runtime.ts';
import type { Handler } from '../worker/handler.ts';
import { AppServices, type LifeOptions } from './app-services.ts';
import { outlastContext } from './express.ts';
import { findHandlers, type ProviderLike } from './nest-handlers.ts';
import type { RequestLike } from './node-request.ts';
import { problemOf } from './problem-of.ts';
import type { AnyOutlast, RequestContextOptions } from './request-context.ts';

export { Handles, type HandlesOptions, type HandlingMethod } from './nest-handlers.ts';
export type { AnyOutlast, LifeOptions, RequestContextOptions, RequestLike };

/** Options of `OutlastModule.forRoot`. */
export interface OutlastModuleOptions extends LifeOptions, RequestContextOptions<RequestLike> {
  /** Closed with the application. */
  readonly outlast: Pick<Outlast<never>, typeof CONTEXT | 'close' | 'handler'>;
  /**
   * Starts what runs in this process, with the handlers of all providers: when the application has been bootstrapped, which fails if one
   * cannot be started. Left out: nothing runs here.
   */
  readonly services?: (handlers: readonly Handler[]) => readonly Promise<Service>[];
}

/** Options of `OutlastModule.forRootAsync`. */
export interface OutlastModuleAsyncOptions {
  /** Modules that export what is injected. */
  readonly imports?: readonly unknown[];
  /** Tokens of what `useFactory` takes. */
  readonly inject?: readonly unknown[];
  /** Makes the options of `forRoot`. */
  readonly useFactory: (
    ...injected: never[]
  ) => OutlastModuleOptions | Promise<OutlastModuleOptions>;
}

/** A module for the `imports` of another one. */
export interface OutlastDynamicModule {
  readonly module: typeof OutlastModule;
  readonly global: true;
}

/**
 * The token of the instance.
 *
 * @example
 * console.log(app.get(OUTLAST));
 */
export const OUTLAST: unique symbol = Symbol.for('outlast.nest.instance') as never;

const OPTIONS: unique symbol = Symbol.for('outlast.nest.options') as never;
const LIFE: unique symbol = Symbol.for('outlast.nest.life') as never;

/**
 * Injects the instance into a constructor or a property.
 *
 * @example
 * InjectOutlast();
 */
export function InjectOutlast(): ParameterDecorator & PropertyDecorator {
  return Inject(OUTLAST);
}

/** The part of what Nest gives to `configure` that is needed. */
export interface ConsumerLike {
  apply(middleware: unknown): { forRoutes(path: string): unknown };
}

/** The part of Nest's discovery that is needed. */
export interface DiscoveryLike {
  getProviders(): readonly ProviderLike[];
  getControllers(): readonly ProviderLike[];
}

/**
 * Outlast in a Nest application, global: `@InjectOutlast()`, `OutlastHealthIndicator`, answers to Outlast's errors, trace and context
 * of each request for what is sent in it, and `services` that start and drain with the application. They drain before Nest stops to
 * listen and before providers close what handlers need (`onApplicationShutdown`); the instance is closed after the last request.
 * Signals reach them with `app.enableShutdownHooks()`.
 *
 * @example
 * OutlastModule.forRoot({
 *   outlast,
 *   services: tasks => [startWorker(outlast, { tasks }), startResurrector(outlast)],
 * });
 */
export class OutlastModule {
  readonly #options: OutlastModuleOptions;
  readonly #life: AppServices;
  readonly #discovery: DiscoveryLike;
  #handlers: readonly Handler[] | undefined;

  constructor(options: OutlastModuleOptions, life: AppServices, discovery: DiscoveryLike) {
    this.#options = options;
    this.#life = life;
    this.#discovery = discovery;
  }

  /** With an instance that is there already. */
  static forRoot(options: OutlastModuleOptions): OutlastDynamicModule {
    return OutlastModule.forRootAsync({ useFactory: () => options });
  }

  /** With options that are made of other providers. */
  static forRootAsync(given: OutlastModuleAsyncOptions): OutlastDynamicModule {
    const { imports = [], inject = [], useFactory } = given;
    const made = {
      module: OutlastModule,
      global: true,
      imports: [DiscoveryModule, ...imports],
      providers: [
        { provide: OPTIONS, useFactory, inject },
        { provide: OUTLAST, useFactory: outlastIn, inject: [OPTIONS] },
        {
          provide: LIFE,
          useFactory: (options: LifeOptions) => new AppServices(options),
          inject: [OPTIONS],
        },
        OutlastHealthIndicator,
        { provide: APP_FILTER, useClass: OutlastExceptionFilter },
      ],
      exports: [OUTLAST, OutlastHealthIndicator],
    } as const;
    return made;
  }

  /** The handlers of all providers. */
  get handlers(): readonly Handler[] {
    const providers = [...this.#discovery.getProviders(), ...this.#discovery.getControllers()];
    this.#handlers ??= findHandlers(this.#options.outlast, providers);
    return this.#handlers;
  }

  /** Called by Nest. */
  configure(consumer: ConsumerLike): void {
    consumer.apply(outlastContext(this.#options.outlast, this.#options)).forRoutes('*');
  }

  /** Called by Nest. */
  async onApplicationBootstrap(): Promise<void> {
    const { services } = this.#options;
    if (services !== undefined) await this.#life.start(() => services(this.handlers));
  }

  /** Called by Nest. Later, providers may have closed what running handlers need. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.#life.stop();
  }

  /** Called by Nest, when no request is left that may send. */
  async onApplicationShutdown(): Promise<void> {
    await this.#life.close();
  }
}

const outlastIn = ({ outlast }: OutlastModuleOptions): unknown => outlast;

/**
 * The handlers of an application's providers, for a module that `outlast worker` loads. There `services` are not started.
 *
 * @example
 * export const handlers = handlersOf(await NestFactory.createApplicationContext(AppModule));
 */
export function handlersOf(app: {
  get(token: typeof OutlastModule): OutlastModule;
}): readonly Handler[] {
  return app.get(OutlastModule).handlers;
}

/** Matched with `instanceof`: every error that has an answer, whichever copy of the package has made it. */
// oxlint-disable-next-line typescript/no-extraneous-class -- `instanceof` takes nothing else.
class Answered {
  static [Symbol.hasInstance](error: unknown): boolean {
    return problemOf(error) !== null;
  }
}

/** The part of what Nest gives to filters that is needed. */
export interface HostLike {
  getType(): string;
  switchToHttp(): { getResponse(): unknown };
}

/** The part of Nest's HTTP adapter that is needed. */
export interface AdapterLike {
  isHeadersSent(response: unknown): boolean;
  setHeader(response: unknown, name: string, value: string): unknown;
  reply(response: unknown, body: string, status: number): unknown;
  end(response: unknown): unknown;
}

/**
 * Answers Outlast's errors that are about the request or about load, as `application/problem+json`, as in the other frameworks. It
 * catches no other error. `OutlastModule` makes it global; name it where a filter of yours catches everything.
 *
 * @example
 * UseFilters(OutlastExceptionFilter);
 */
export class OutlastExceptionFilter {
  readonly #host: { readonly httpAdapter: AdapterLike };

  constructor(host: { readonly httpAdapter: AdapterLike }) {
    this.#host = host;
  }

  catch(error: Error, host: HostLike): void {
    const problem = problemOf(error);
    if (problem === null || host.getType() !== 'http') throw error;
    const { httpAdapter } = this.#host;
    const response = host.switchToHttp().getResponse();
    if (httpAdapter.isHeadersSent(response)) return void httpAdapter.end(response);
    for (const [name, value] of Object.entries(problem.headers))
      httpAdapter.setHeader(response, name, value);
    httpAdapter.reply(response, problem.body, problem.status);
  }
}

/** What a health indicator says. */
export interface OutlastHealth {
  readonly status: 'up' | 'down';
  /** The class or code of what is wrong, never its text. */
  readonly error?: string;
}

/** A probe waits less. */
const ANSWER_MS = 5_000;

/**
 * Health for `@nestjs/terminus` (11 or later), by its shape: down when the store of the ledger does not answer within 5 s, or when a
 * service of this process has broken for good.
 *
 * @example
 * await indicator.isHealthy('outlast');
 */
export class OutlastHealthIndicator {
  readonly #outlast: AnyOutlast;
  readonly #life: Pick<AppServices, 'broken'>;

  constructor(outlast: AnyOutlast, life: { readonly broken: string | null }) {
    this.#outlast = outlast;
    this.#life = life;
  }

  async isHealthy<K extends string = 'outlast'>(
    key: K = 'outlast' as K,
  ): Promise<Record<K, OutlastHealth>> {
    const error = this.#life.broken ?? (await this.#ask());
    const health: OutlastHealth = error === null ? { status: 'up' } : { status: 'down', error };
    return { [key]: health } as Record<K, OutlastHealth>;
  }

  async #ask(): Promise<string | null> {
    const context = this.#outlast[CONTEXT];
    const ended = new AbortController();
    const late = sleep(context.runtime.clock, ANSWER_MS, ended.signal).then(
      () => 'ERR_STORE_UNAVAILABLE',
    );
    const asking = context.stores().then(async ({ control }) => {
      await control.paused();
      return null;
    });
    try {
      return await Promise.race([asking.catch(errorName), late]);
    } finally {
      ended.abort();
    }
  }
}

// What decorators would do, which Node does not run.
Module({})(OutlastModule);
[OPTIONS, LIFE, DiscoveryService].forEach((token, at) =>
  Inject(token)(OutlastModule, undefined, at),
);
Inject(HttpAdapterHost)(OutlastExceptionFilter, undefined, 0);
Catch(Answered)(OutlastExceptionFilter);
[OUTLAST, LIFE].forEach((token, at) => Inject(token)(OutlastHealthIndicator, undefined, at));

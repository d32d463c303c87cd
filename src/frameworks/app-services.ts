import { CONTEXT } from '../app/outlast.ts';
import { errorName } from '../errors/error-name.ts';
import { isStartedByWorker } from '../process/worker-spec.ts';
import { sleep, type Service } from '../runtime/runtime.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import type { AnyOutlast } from './request-context.ts';

/** What of Outlast lives and dies with an application. */
export interface LifeOptions {
  /** Closed with the application. */
  readonly outlast: AnyOutlast & { close(): Promise<void> };
  /**
   * Longest wait, when the application closes, for its services to drain; longer than the `shutdownTimeout` of a worker, which is 30 s
   * if you do not set it. What has not ended by then is left to the lease. @default '60s'
   */
  readonly closeTimeout?: Duration;
  /** Called when a service has broken for good, which is also logged. The application goes on, unless this ends it. */
  readonly onBroken?: (error: unknown) => void;
}

const CLOSE_TIMEOUT = '60s';

/** Starts services with an application and drains them with it. */
export class AppServices {
  readonly #options: LifeOptions;
  readonly #closeMs: number;
  #starting: Promise<readonly Service[]> = Promise.resolve([]);
  #stopping: Promise<void> | undefined;
  #broken: string | null = null;

  constructor(options: LifeOptions) {
    this.#options = options;
    this.#closeMs = durationMs(options.closeTimeout ?? CLOSE_TIMEOUT, 'closeTimeout');
  }

  /** Of the first service that has broken for good, the class or code of its error; null: none has. */
  get broken(): string | null {
    return this.#broken;
  }

  /**
   * All, or none: if one cannot be started the others are stopped, and the caller gets its error. A worker process that
   * `outlast worker` has started loads the application for its handlers only.
   */
  async start(make: () => readonly Promise<Service>[]): Promise<void> {
    if (isStartedByWorker() || this.#stopping !== undefined) return;
    const starting = Promise.allSettled(make());
    this.#starting = starting.then(all =>
      all.flatMap(one => (one.status === 'fulfilled' ? [one.value] : [])),
    );
    const failed = (await starting).find(one => one.status === 'rejected');
    if (failed !== undefined) {
      await this.stop();
      throw failed.reason;
    }
    for (const { finished } of await this.#starting)
      finished.catch((error: unknown) => this.#noteBroken(error));
  }

  /** Drains all at once. It never fails, and it ends. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { runtime, log } = this.#options.outlast[CONTEXT];
    const draining = this.#starting.then(services =>
      Promise.allSettled(services.map(service => service.stop())),
    );
    const ended = new AbortController();
    const late = sleep(runtime.clock, this.#closeMs, ended.signal).then(() => null);
    if ((await Promise.race([draining, late])) === null)
      log.warn(
        {},
        'services did not drain within `closeTimeout`; their tasks are left to the lease',
      );
    ended.abort();
  }

  /** After everything that may still send. */
  async close(): Promise<void> {
    await this.stop();
    await this.#options.outlast.close();
  }

  #noteBroken(error: unknown): void {
    this.#broken ??= errorName(error);
    try {
      this.#options.onBroken?.(error);
    } catch (failure) {
      this.#options.outlast[CONTEXT].log.error({ error: failure }, '`onBroken` failed');
    }
  }
}

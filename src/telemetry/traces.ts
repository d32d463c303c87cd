import type { Envelope } from '../task/envelope.ts';

/**
 * Where the stages report spans. They know nothing of OpenTelemetry or Sentry; without `traces` in the configuration there is
 * none of this, and nothing is loaded.
 */

type Headers = Readonly<Record<string, string>>;

/** What a span may say of a task: never what is in its arguments, its result or its headers. */
export type Traced = Pick<Envelope, 'id' | 'name' | 'queue' | 'options'>;

/** What the tasks of one send take along, and where it says what it has written. */
export interface SendTrace {
  readonly headers: Headers;
  wrote(tasks: readonly Pick<Traced, 'id' | 'name' | 'queue'>[]): void;
}

export interface TracedTask {
  readonly id: string;
  readonly epoch: number;
  readonly failures: number;
  readonly crashes: number;
  readonly envelope: Traced;
}

export type RunOutcome = 'done' | 'discarded' | 'failed' | 'crashed' | 'dead' | 'released' | 'lost';

export interface RunEnd {
  readonly outcome: RunOutcome;
  /** What it failed by; its class and code are shown, its text is not. */
  readonly error?: unknown;
}

/** One run of a task. */
export interface RunTrace {
  /** For what follows the task. */
  readonly headers: Headers;
  /** For an isolate that runs the handler. Null: it has nothing to do with them. */
  readonly isolateHeaders: Headers | null;
  /** It has waited in its worker, and its handler is next. */
  started(): void;
  /** Runs the handler, so that spans of the user become children of the run. */
  within<T>(fn: () => T): T;
  /** The handler has ended, or does not run. */
  ended(end: RunEnd): void;
  /** Around the step that writes how the run ended. */
  settle<T>(fn: () => T | Promise<T>): T | Promise<T>;
}

export interface Traces {
  /** Around a send, from before anything is composed. */
  create<T>(fn: (trace: SendTrace) => Promise<T>): Promise<T>;
  /** Around the publishing of messages; the answers are in their order. */
  publish<A extends { readonly status: string }>(
    messages: readonly Traced[],
    fn: () => Promise<readonly A[]>,
  ): Promise<readonly A[]>;
  /** A worker has begun a task. */
  begun(task: TracedTask): RunTrace;
}

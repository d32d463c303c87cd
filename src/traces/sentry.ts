import type {
  RunEnd,
  RunOutcome,
  RunTrace,
  SendTrace,
  Traced,
  TracedTask,
  Traces,
} from '../telemetry/traces.ts';
import type { SentryCapture, SentryLike } from '../telemetry/sentry-like.ts';
import { isKeptTrace } from '../task/trace-headers.ts';
import { hasMark } from '../task/marks.ts';
import { readOptions } from '../task/read-options.ts';

type Headers = Readonly<Record<string, string>>;

export interface SentrySettings {
  readonly sentry: SentryLike;
  /** Null: none. */
  readonly capture: SentryCapture | null;
}

const POINT = /^[0-9a-f]{32}-[0-9a-f]{16}(-[01])?$/;
const NO_HEADERS: Headers = Object.freeze({});
const FAILED: ReadonlySet<RunOutcome> = new Set(['failed', 'crashed', 'dead']);

/** Sentry’s own headers, in and out, and failures with the task as context. */
export class SentryTraces implements Traces {
  readonly #settings: SentrySettings;

  constructor(settings: SentrySettings) {
    this.#settings = settings;
  }

  async create<T>(fn: (trace: SendTrace) => Promise<T>): Promise<T> {
    return await fn({ headers: headersNow(this.#settings.sentry), wrote: () => undefined });
  }

  async publish<A>(_: readonly Traced[], fn: () => Promise<readonly A[]>): Promise<readonly A[]> {
    return await fn();
  }

  begun(task: TracedTask): RunTrace {
    return new SentryRun(task, this.#settings);
  }
}

class SentryRun implements RunTrace {
  readonly isolateHeaders = null;
  headers: Headers = NO_HEADERS;
  readonly #task: TracedTask;
  readonly #settings: SentrySettings;
  readonly #from: Parameters<SentryLike['continueTrace']>[0];

  constructor(task: TracedTask, settings: SentrySettings) {
    this.#task = task;
    this.#settings = settings;
    this.#from = fromHeaders(task.envelope.options);
  }

  started(): void {
    // Sentry’s span is open while the handler runs.
  }

  within<T>(fn: () => T): T {
    const { sentry } = this.#settings;
    const { envelope, id, failures } = this.#task;
    const attributes = {
      'messaging.message.id': id,
      'messaging.destination.name': envelope.queue,
      'messaging.message.retry.count': failures,
    };
    const span = { name: envelope.name, op: 'queue.process', attributes };
    return sentry.continueTrace(this.#from, () =>
      sentry.startSpan(span, () => {
        this.headers = headersNow(sentry);
        return fn();
      }),
    );
  }

  ended({ outcome, error }: RunEnd): void {
    const { sentry, capture } = this.#settings;
    if (capture === null || !FAILED.has(outcome)) return;
    if (capture === 'dead' && outcome !== 'dead') return;
    const { id, epoch, failures, crashes, envelope } = this.#task;
    const { name, queue } = envelope;
    const about = {
      id,
      name,
      queue,
      epoch,
      attempt: failures + 1,
      resurrections: crashes,
      outcome,
    };
    try {
      sentry.continueTrace(this.#from, () =>
        sentry.captureException(error ?? new Error(outcome), {
          level: outcome === 'dead' ? 'error' : 'warning',
          tags: { 'outlast.task': name, 'outlast.queue': queue },
          contexts: { outlast: about },
        }),
      );
    } catch {
      // What cannot be reported must not change how the task ends.
    }
  }

  settle<T>(fn: () => T | Promise<T>): T | Promise<T> {
    return fn();
  }
}

/** Where Sentry is; none if it does not know, or if what it says may not travel. */
function headersNow(sentry: SentryLike): Headers {
  try {
    const { 'sentry-trace': point, baggage } = sentry.getTraceData();
    if (point === undefined || !POINT.test(point)) return NO_HEADERS;
    const isBaggageKept = baggage !== undefined && isKeptTrace('baggage', baggage);
    return { 'sentry-trace': point, ...(isBaggageKept ? { baggage } : {}) };
  } catch {
    return NO_HEADERS;
  }
}

/** What is not well-formed starts a new trace. */
function fromHeaders(options: Uint8Array): Parameters<SentryLike['continueTrace']>[0] {
  const none = { sentryTrace: undefined, baggage: undefined };
  if (!hasMark(options, '"sentry-trace":')) return none;
  try {
    const { headers = {} } = readOptions({ options });
    const { 'sentry-trace': sentryTrace, baggage } = headers;
    if (sentryTrace === undefined || !POINT.test(sentryTrace)) return none;
    const isKept = baggage !== undefined && isKeptTrace('baggage', baggage);
    return { sentryTrace, baggage: isKept ? baggage : undefined };
  } catch {
    return none;
  }
}

import type {
  Attributes,
  Context,
  Link,
  Span,
  SpanContext,
  SpanKind,
  Tracer,
} from '@opentelemetry/api';
import { markedHeaders } from '../task/read-options.ts';
import { ambientTrace } from '../telemetry/ambient.ts';
import type { Traced } from '../telemetry/traces.ts';
import { contextFrom, type Api } from './span-context.ts';

export interface SpanSettings {
  /** `messaging.system`: what carries the messages. */
  readonly system: string;
  /** Whether what the headers of its messages say may be handed on: false where anybody may write them. */
  readonly isTrusted: (queue: string) => boolean;
}

export type Operation = 'create' | 'send' | 'receive' | 'process' | 'settle';

interface SpanStart {
  readonly kind: SpanKind;
  readonly attributes: Attributes;
  readonly parent: Context | null;
  readonly links?: readonly Link[];
}

/** Runs that ended without an end of their task, so that the next one here can name them. */
const MOST_REMEMBERED = 1_000;
const MARK = '"traceparent":';

/** What all spans of ours have in common. */
export class SpanMaker {
  readonly api: Api;
  readonly #settings: SpanSettings;
  readonly #before = new Map<string, SpanContext>();

  constructor(api: Api, settings: SpanSettings) {
    this.api = api;
    this.#settings = settings;
  }

  /** Null: the application has registered no provider, at least not yet, so spans would go nowhere. */
  get tracer(): Tracer | null {
    const provider = this.api.trace.getTracerProvider();
    if (!('getDelegateTracer' in provider)) return provider.getTracer('outlast');
    const proxy = provider as InstanceType<Api['ProxyTracerProvider']>;
    return proxy.getDelegateTracer('outlast') ?? null;
  }

  /** The context in which a task was sent. */
  created(message: Traced): Context | null {
    const headers = markedHeaders(message, MARK);
    if (headers === null) return null;
    return contextFrom(this.api, headers, this.#settings.isTrusted(message.queue));
  }

  /** What is active, or else the trace that the request came with: not every application traces its requests itself. */
  around(active: Context): Context {
    const { trace } = this.api;
    if (trace.getSpanContext(active) !== undefined) return active;
    const from = contextFrom(this.api, ambientTrace(), true);
    const at = from === null ? undefined : trace.getSpanContext(from);
    return at === undefined ? active : trace.setSpanContext(active, at);
  }

  operation(name: Operation): Attributes {
    return {
      'messaging.system': this.#settings.system,
      'messaging.operation.name': name,
      'messaging.operation.type': name,
    };
  }

  /** The span in whose context a task was sent is linked too, as the conventions ask for. */
  start(tracer: Tracer, name: string, { kind, attributes, parent, links = [] }: SpanStart): Span {
    const created = parent === null ? undefined : this.api.trace.getSpanContext(parent);
    const all = created?.isRemote ? [{ context: created }, ...links] : [...links];
    return tracer.startSpan(
      name,
      { kind, attributes, links: all },
      parent ?? this.api.ROOT_CONTEXT,
    );
  }

  /** No text of an error: it may quote anything. */
  fail(span: Span | null, type: string): void {
    span?.setAttribute('error.type', type);
    span?.setStatus({ code: this.api.SpanStatusCode.ERROR });
  }

  /** How the last run of a task in this process ended, if the task went on. */
  takeBefore(id: string): SpanContext | undefined {
    const found = this.#before.get(id);
    this.#before.delete(id);
    return found;
  }

  remember(id: string, at: SpanContext): void {
    const [oldest] = this.#before.size < MOST_REMEMBERED ? [] : this.#before.keys();
    if (oldest !== undefined) this.#before.delete(oldest);
    this.#before.set(id, at);
  }
}

export const aboutTask = ({ name, queue }: Pick<Traced, 'name' | 'queue'>): Attributes => ({
  'messaging.destination.name': queue,
  'outlast.task.name': name,
});

export const aboutMessage = (message: Pick<Traced, 'id' | 'name' | 'queue'>): Attributes => ({
  ...aboutTask(message),
  'messaging.message.id': message.id,
});

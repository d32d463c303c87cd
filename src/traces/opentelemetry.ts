import type { Span } from '@opentelemetry/api';
import { errorName } from '../errors/error-name.ts';
import type { RunTrace, SendTrace, Traced, TracedTask, Traces } from '../telemetry/traces.ts';
import { RunSpans } from './run-spans.ts';
import { NOT_RUN, NOT_SENT } from './guarded-traces.ts';
import { headersOf, type Api } from './span-context.ts';
import { aboutMessage, aboutTask, SpanMaker, type SpanSettings } from './span-maker.ts';

/** Spans after the messaging conventions of OpenTelemetry: create, send, receive, process, settle. */
export class OpenTelemetryTraces implements Traces {
  readonly #maker: SpanMaker;

  constructor(api: Api, settings: SpanSettings) {
    this.#maker = new SpanMaker(api, settings);
  }

  async create<T>(fn: (trace: SendTrace) => Promise<T>): Promise<T> {
    const { tracer } = this.#maker;
    if (tracer === null) return await fn(NOT_SENT);
    const { context, trace, SpanKind: kinds } = this.#maker.api;
    const active = this.#maker.around(context.active());
    const attributes = this.#maker.operation('create');
    const span = tracer.startSpan('create', { kind: kinds.PRODUCER, attributes }, active);
    const inside = trace.setSpan(active, span);
    const wrote: SendTrace['wrote'] = tasks => {
      const [first] = tasks;
      if (first === undefined) return;
      span.updateName(`create ${first.queue}`);
      span.setAttributes(aboutTask(first));
      if (tasks.length === 1) span.setAttribute('messaging.message.id', first.id);
      else span.setAttribute('messaging.batch.message_count', tasks.length);
    };
    const headers = headersOf(this.#maker.api, inside);
    return await this.#spanning(span, () => context.with(inside, () => fn({ headers, wrote })));
  }

  async publish<A extends { readonly status: string }>(
    messages: readonly Traced[],
    fn: () => Promise<readonly A[]>,
  ): Promise<readonly A[]> {
    const { tracer } = this.#maker;
    if (tracer === null) return await fn();
    const spans = messages.map(message => {
      const created = this.#maker.created(message);
      if (created === null) return null;
      const attributes = { ...this.#maker.operation('send'), ...aboutMessage(message) };
      const kind = this.#maker.api.SpanKind.CLIENT;
      return this.#maker.start(tracer, `send ${message.queue}`, {
        kind,
        attributes,
        parent: created,
      });
    });
    let answers: readonly A[] = [];
    try {
      return (answers = await fn());
    } finally {
      for (const [index, span] of spans.entries()) {
        const status = answers[index]?.status ?? 'unavailable';
        if (status !== 'confirmed') this.#maker.fail(span, status);
        span?.end();
      }
    }
  }

  begun(task: TracedTask): RunTrace {
    const { tracer } = this.#maker;
    return tracer === null ? NOT_RUN : new RunSpans(task, tracer, this.#maker);
  }

  async #spanning<T>(span: Span, fn: () => Promise<T>): Promise<T> {
    try {
      return await fn();
    } catch (error) {
      this.#maker.fail(span, errorName(error));
      throw error;
    } finally {
      span.end();
    }
  }
}

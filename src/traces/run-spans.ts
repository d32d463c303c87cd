import type { Context, Link, Span, Tracer } from '@opentelemetry/api';
import { errorName } from '../errors/error-name.ts';
import type { RunEnd, RunOutcome, RunTrace, TracedTask } from '../telemetry/traces.ts';
import { headersOf, NO_HEADERS, type Headers } from './span-context.ts';
import { aboutMessage, type Operation, type SpanMaker } from './span-maker.ts';

const FAILURES: ReadonlySet<RunOutcome> = new Set(['failed', 'crashed', 'dead', 'lost']);
/** After these no other run of the task is expected. */
const ENDS: ReadonlySet<RunOutcome> = new Set(['done', 'discarded', 'dead']);

/** receive: from its begin to its handler. process: the handler. settle: what it ended with is written. */
export class RunSpans implements RunTrace {
  readonly #task: TracedTask;
  readonly #tracer: Tracer;
  readonly #maker: SpanMaker;
  readonly #created: Context | null;
  #receive: Span | null;
  #process: Span | null = null;
  #inside: Context | null = null;

  constructor(task: TracedTask, tracer: Tracer, maker: SpanMaker) {
    this.#task = task;
    this.#tracer = tracer;
    this.#maker = maker;
    this.#created = maker.created(task.envelope);
    this.#receive = this.#created === null ? null : this.#start('receive', this.#created);
  }

  get headers(): Headers {
    return this.#inside === null ? NO_HEADERS : headersOf(this.#maker.api, this.#inside);
  }

  get isolateHeaders(): Headers | null {
    return this.#inside === null ? null : this.headers;
  }

  started(): void {
    this.#endReceive();
    const { failures, crashes, id } = this.#task;
    const before = this.#maker.takeBefore(id);
    const why = crashes > 0 ? 'resurrection' : 'retry';
    const links = before ? [{ context: before, attributes: { 'outlast.link': why } }] : [];
    this.#process = this.#start('process', this.#created, links);
    this.#process.setAttributes({
      'outlast.task.attempt': failures + 1,
      'outlast.task.resurrections': crashes,
      'outlast.task.epoch': this.#task.epoch,
    });
    const { trace, ROOT_CONTEXT } = this.#maker.api;
    this.#inside = trace.setSpan(this.#created ?? ROOT_CONTEXT, this.#process);
  }

  within<T>(fn: () => T): T {
    return this.#inside === null ? fn() : this.#maker.api.context.with(this.#inside, fn);
  }

  ended({ outcome, error }: RunEnd): void {
    this.#endReceive();
    const span = this.#process;
    if (span === null) return;
    this.#process = null;
    span.setAttribute('outlast.task.outcome', outcome);
    if (FAILURES.has(outcome))
      this.#maker.fail(span, error === undefined ? outcome : errorName(error));
    span.end();
    if (!ENDS.has(outcome)) this.#maker.remember(this.#task.id, span.spanContext());
  }

  settle<T>(fn: () => T | Promise<T>): T | Promise<T> {
    if (this.#inside === null) return fn();
    const span = this.#start('settle', this.#inside);
    const settling = fn();
    if (!(settling instanceof Promise)) {
      span.end();
      return settling;
    }
    return settling.finally(() => span.end());
  }

  #start(
    operation: Exclude<Operation, 'create' | 'send'>,
    parent: Context | null,
    links?: readonly Link[],
  ): Span {
    const { envelope } = this.#task;
    const { SpanKind: kinds } = this.#maker.api;
    const kind = operation === 'process' ? kinds.CONSUMER : kinds.CLIENT;
    const attributes = { ...this.#maker.operation(operation), ...aboutMessage(envelope) };
    const name = `${operation} ${envelope.queue}`;
    return this.#maker.start(this.#tracer, name, { kind, attributes, parent, links: links ?? [] });
  }

  #endReceive(): void {
    this.#receive?.end();
    this.#receive = null;
  }
}

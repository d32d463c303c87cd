import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { toText } from '../task/json.ts';
import { MARKS, hasMark } from '../task/marks.ts';
import { pythonException } from './python-exceptions.ts';
import { safeKey } from '../task/names.ts';
import type { Asker, IncomingMessage } from './message.ts';

/** An answer to the sender of a task, like Celery's `rpc://` results: one message to the sender's own queue. */
export interface Reply {
  readonly replyTo: string;
  readonly correlationId: string;
  /** JSON text. */
  readonly body: string;
}

/** The state of a task in Celery's terms. Error texts are bounded already. */
export type ReportedEnd =
  | {
      readonly status: 'STARTED';
      readonly runsAt: { readonly pid: number; readonly hostname: string };
    }
  | {
      readonly status: 'SUCCESS';
      readonly result: string;
      /** JSON text: the results of the tasks that follow; null or left out: none. */
      readonly children?: string | null;
    }
  | { readonly status: 'RETRY' | 'FAILURE'; readonly error: ToldError }
  | { readonly status: 'REVOKED'; readonly why: string };

interface ToldError {
  readonly type: string;
  readonly message: string;
  readonly traceback: string;
}

/** Whether a sender may wait for an answer. Cheap, because it is called for every task. */
export function wantsReply({ options }: Envelope): boolean {
  return hasMark(options, MARKS.replyTo);
}

/** The answer that the sender of a task requested; null: it requested none, or ignores results. */
export function replyOf(envelope: Envelope, report: ReportedEnd): Reply | null {
  if (!wantsReply(envelope)) return null;
  const options = JSON.parse(toText(envelope.options)) as EnvelopeOptions;
  const { replyTo, correlationId = envelope.id, keepResult } = options;
  if (replyTo === undefined || keepResult === false) return null;
  return { replyTo, correlationId, body: encodeReport(envelope.id, report) };
}

/** The document that `AsyncResult` reads. */
export function encodeReport(id: string, report: ReportedEnd): string {
  const [result, traceback] = partsOf(report);
  const children = (report.status === 'SUCCESS' ? report.children : null) ?? '[]';
  return `{"task_id": ${JSON.stringify(id)}, "status": "${report.status}", "result": ${result}, "traceback": ${traceback}, "children": ${children}}`;
}

/** The result and the traceback of such a document, as JSON. */
export function partsOf(report: ReportedEnd): readonly [result: string, traceback: string] {
  switch (report.status) {
    case 'STARTED':
      return [JSON.stringify(report.runsAt), 'null'];
    case 'SUCCESS':
      return [report.result, 'null'];
    case 'REVOKED':
      return [exception('TaskRevokedError', report.why), 'null'];
    case 'RETRY':
    case 'FAILURE': {
      const { type, message, traceback } = report.error;
      return [exception(type, message), traceback === '' ? 'null' : JSON.stringify(traceback)];
    }
  }
}

function exception(name: string, message: string): string {
  const { type, module } = pythonException(name);
  return JSON.stringify({ exc_type: type, exc_message: [message], exc_module: module });
}

/** Null: no caller waits, or there is no way to reach it. */
export function askerOf({ headers, properties }: IncomingMessage): Asker | null {
  if (typeof headers !== 'object' || headers === null) return null;
  const own = (name: string): unknown =>
    Object.hasOwn(headers, name) ? (headers as Record<string, unknown>)[name] : undefined;
  const id = key(own('id'));
  if (id === null || own('ignore_result') === true) return null;
  const replyTo = key(properties.replyTo);
  return {
    id,
    correlationId: key(properties.correlationId) ?? id,
    ...(replyTo === null ? {} : { replyTo }),
  };
}

function key(value: unknown): string | null {
  try {
    return typeof value === 'string' ? safeKey(value, 'it') : null;
  } catch {
    return null;
  }
}

import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { toText } from '../task/json.ts';

/** An answer to whoever sent a task, as Celery's `rpc://` results are: one message to a queue of the sender's own. */
export interface Reply {
  readonly replyTo: string;
  readonly correlationId: string;
  /** JSON text. */
  readonly body: string;
}

/** How a task stands, in Celery's words. Texts of errors are bounded already. */
export type Told =
  | {
      readonly status: 'STARTED';
      readonly runsAt: { readonly pid: number; readonly hostname: string };
    }
  | { readonly status: 'SUCCESS'; readonly result: string }
  | { readonly status: 'RETRY' | 'FAILURE'; readonly error: ToldError }
  | { readonly status: 'REVOKED'; readonly why: string };

interface ToldError {
  readonly type: string;
  readonly message: string;
  readonly traceback: string;
}

const MARK = '"replyTo":';

/** Whether somebody may wait for an answer. Cheap, for every task is asked. */
export function wantsReply({ options }: Envelope): boolean {
  return Buffer.from(options.buffer, options.byteOffset, options.byteLength).includes(MARK);
}

/** The answer that the sender of a task asked for; null: he asked for none, or wants no results. */
export function replyOf(envelope: Envelope, told: Told): Reply | null {
  if (!wantsReply(envelope)) return null;
  const options = JSON.parse(toText(envelope.options)) as EnvelopeOptions;
  const { replyTo, correlationId = envelope.id, keepResult } = options;
  if (replyTo === undefined || keepResult === false) return null;
  return { replyTo, correlationId, body: encodeTold(envelope.id, told) };
}

/** The document that `AsyncResult` reads; `module` is that of the error's class. */
export function encodeTold(id: string, told: Told, module = 'outlast'): string {
  const [result, traceback] = partsOf(told, module);
  return `{"task_id": ${JSON.stringify(id)}, "status": "${told.status}", "result": ${result}, "traceback": ${traceback}, "children": []}`;
}

function partsOf(told: Told, module: string): readonly [result: string, traceback: string] {
  switch (told.status) {
    case 'STARTED':
      return [JSON.stringify(told.runsAt), 'null'];
    case 'SUCCESS':
      return [told.result, 'null'];
    case 'REVOKED':
      return [exception('TaskRevokedError', told.why, 'celery.exceptions'), 'null'];
    case 'RETRY':
    case 'FAILURE': {
      const { type, message, traceback } = told.error;
      return [
        exception(type, message, module),
        traceback === '' ? 'null' : JSON.stringify(traceback),
      ];
    }
  }
}

const exception = (type: string, message: string, module: string): string =>
  JSON.stringify({ exc_type: type, exc_message: [message], exc_module: module });

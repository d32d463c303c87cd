import { CONTEXT, type Outlast } from '../app/outlast.ts';
import { traceOfRequest } from '../task/trace-headers.ts';
import { withinRequest } from '../telemetry/ambient.ts';

/** An instance, whatever its transactions are. */
export type AnyOutlast = Pick<Outlast<never>, typeof CONTEXT>;

/** What `outlastContext` and its like take. */
export interface RequestContextOptions<R> {
  /**
   * What is bound while the request runs, beside `requestId`. The configuration names what tasks take along of it (`context`). If it
   * throws, that is logged, and the request goes on without.
   */
  readonly context?: (request: R) => Readonly<Record<string, unknown>>;
}

/** How the parts of a request that are needed are read in a framework. */
export interface RequestReader {
  readonly header: (name: string) => string | undefined;
  /** The id that the framework, or something before, has given to the request. */
  readonly id?: unknown;
}

/** Runs the rest of a request. */
export type Around = <T>(fn: () => T) => T;

// A header of the request that everybody may write, and that is shown in logs.
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** What surrounds a request: its id, what the application binds, and the trace it came with. */
export function surroundRequest<R>(
  outlast: AnyOutlast,
  { context }: RequestContextOptions<R>,
  [request, reader]: readonly [R, RequestReader],
): Around {
  const values = { ...idOf(reader), ...own(outlast, context, request) };
  const trace = traceOfRequest(reader.header);
  return fn => withinRequest({ values, trace }, fn);
}

function idOf({ header, id }: RequestReader): object {
  if (typeof id === 'string' || typeof id === 'number') return { requestId: id };
  const sent = header('x-request-id') ?? '';
  return REQUEST_ID.test(sent) ? { requestId: sent } : {};
}

/** No request fails for want of its context. */
function own<R>(
  outlast: AnyOutlast,
  context: RequestContextOptions<R>['context'],
  request: R,
): object {
  try {
    return context?.(request) ?? {};
  } catch (error) {
    outlast[CONTEXT].log.warn({ error }, '`context` of a request failed; it goes on without');
    return {};
  }
}

import { toUSVString } from 'node:util';

/**
 * The headers in which a trace travels: those of the W3C (OpenTelemetry), and Sentry's. Any sender can write them, and tracing
 * must never be what a task fails by, so whatever is not well-formed counts as absent.
 */

type Headers = Readonly<Record<string, string>>;

/** Each with the longest text that is kept. */
const LIMITS = {
  traceparent: 256,
  tracestate: 512,
  baggage: 8_192,
  'sentry-trace': 128,
} as const;

export type TraceHeader = keyof typeof LIMITS;

export const TRACE_HEADERS = Object.keys(LIMITS) as readonly TraceHeader[];

const isTraceHeader = (name: string): name is TraceHeader => Object.hasOwn(LIMITS, name);

const PRINTABLE = /^[\t\x20-\x7e]+$/;

/** Whether it may travel: printable ASCII of a bounded length. What it means is not looked at. */
export const isKeptTrace = (name: TraceHeader, text: string): boolean =>
  text.length <= LIMITS[name] && PRINTABLE.test(text);

/** A broken trace must not cost a task its life: what may not travel is left out. */
export const isUnfitTrace = (name: string, text: string): boolean =>
  isTraceHeader(name) && !isKeptTrace(name, text);

/** The headers without trace headers that may not travel; the same object if all may. */
export function withoutUnfitTraces<H extends Headers>(headers: H): H | Headers {
  const fit = Object.entries(headers).filter(([name, text]) => !isUnfitTrace(name, text));
  return fit.length === Object.keys(headers).length ? headers : Object.fromEntries(fit);
}

/** Where a trace is: which one, and the span that comes before. */
export interface TracePoint {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: number;
}

// A later version may append fields, after one more dash; `ff` will never be one.
const PARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Null: it is not there, or it is none. */
export function readTraceparent(text: string | undefined): TracePoint | null {
  if (text === undefined || text.length > LIMITS.traceparent) return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = PARENT.exec(text) ?? [];
  if (version === undefined || (version === '00' && more !== undefined)) return null;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}

export const writeTraceparent = ({ traceId, spanId, flags }: TracePoint): string =>
  `00-${traceId}-${spanId}-${(flags & 0xff).toString(16).padStart(2, '0')}`;

/**
 * The trace in the headers of a request, of which anybody may have written anything: where it is, and what vendors keep in it. Its
 * `baggage` is left out: that would hand on to every task, and to what follows, what a stranger has said.
 */
export function traceOfRequest(header: (name: string) => string | undefined): Headers {
  const at = readTraceparent(header('traceparent'));
  if (at === null) return {};
  const state = header('tracestate') ?? '';
  const traceparent = writeTraceparent(at);
  return isKeptTrace('tracestate', state) ? { traceparent, tracestate: state } : { traceparent };
}

/** The headers of a step that was written earlier in the same trace: the task before it knows better where the trace is. */
export function beforeIn(before: Headers, own: Headers): Headers {
  const trace = readTraceparent(own['traceparent'])?.traceId;
  if (trace === undefined || trace !== readTraceparent(before['traceparent'])?.traceId) return own;
  return Object.fromEntries(Object.entries(own).filter(([name]) => !isTraceHeader(name)));
}

const MOST_ENTRIES = 64;
// A token, `=`, and what the W3C allows in a value; properties may follow.
const MEMBER =
  /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*=[ \t]*([\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*)/;

/** The entries of a `baggage` header, decoded. */
export function readBaggage(text: string | undefined): readonly (readonly [string, string])[] {
  if (text === undefined || !isKeptTrace('baggage', text)) return [];
  return text.split(',', MOST_ENTRIES).flatMap(member => {
    const [, key, value] = MEMBER.exec(member.trim()) ?? [];
    const decoded = value === undefined ? null : decode(value);
    return key === undefined || decoded === null ? [] : [[key, decoded] as const];
  });
}

function decode(value: string): string | null {
  try {
    return decodeURIComponent(value);
  } catch {
    return null;
  }
}

/** As many entries as there is room for; undefined: none. */
export function writeBaggage(entries: readonly (readonly [string, string])[]): string | undefined {
  let text = '';
  for (const [key, value] of entries.slice(0, MOST_ENTRIES)) {
    const member = `${key}=${encodeURIComponent(toUSVString(value))}`;
    const longer = text === '' ? member : `${text},${member}`;
    if (longer.length <= LIMITS.baggage && MEMBER.test(member)) text = longer;
  }
  return text === '' ? undefined : text;
}

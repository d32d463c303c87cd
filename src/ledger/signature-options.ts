import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { membersOf } from '../task/json-slices.ts';
import { decodePython } from '../task/json.ts';
import { safeKey } from '../task/names.ts';
import { OWN_HEADERS } from '../wire/headers.ts';
import { parseInstant } from '../wire/iso-time.ts';
import { pick } from '../wire/stamps.ts';
import { textIn, type Sending } from './expand-signature.ts';
import type { Destination } from './routes.ts';

/** Reads the options of a signature for the task that is sent from it. */

/** Texts unchanged; other values, which only Python sends, as JSON. */
export function readHeaders(text: string | undefined): Record<string, string> {
  if (text?.startsWith('{') !== true) return {};
  return Object.fromEntries(
    [...membersOf(text)].map(([key, json]) => {
      const value = decodePython(json);
      return [key, typeof value === 'string' ? value : json];
    }),
  );
}

/** The names of those that Python gave another value than a text. */
export function jsonHeadersIn({ signature: { options } }: Sending): EnvelopeOptions {
  const text = options.get('headers');
  if (text?.startsWith('{') !== true) return {};
  const names = [...membersOf(text)]
    .filter(([name, json]) => !json.startsWith('"') && name !== OWN_HEADERS.schema)
    .map(([name]) => name);
  return names.length === 0 ? {} : { jsonHeaders: names };
}

export function timesOf({ signature: { options } }: Sending): EnvelopeOptions {
  const ms = (key: string): number | null => {
    const seconds = decodePython(options.get(key) ?? 'null');
    return typeof seconds === 'number' && seconds > 0 && Number.isFinite(seconds)
      ? seconds * 1_000
      : null;
  };
  const [timeoutMs, softTimeoutMs] = [ms('time_limit'), ms('soft_time_limit')];
  return {
    ...(timeoutMs === null ? {} : { timeoutMs }),
    ...(softTimeoutMs === null ? {} : { softTimeoutMs }),
    ...(options.get('ignore_result') === 'true' ? { keepResult: false } : {}),
  };
}

/** The stamps of a signature: it names them in one option, and has each as another. */
export function stampsIn({ signature: { options } }: Sending): EnvelopeOptions {
  const names = decodePython(options.get('stamped_headers') ?? 'null');
  const stamps = pick(Array.isArray(names) ? names : [], name =>
    options.has(name) ? decodePython(options.get(name) ?? 'null') : undefined,
  );
  return stamps === undefined ? {} : { stamps };
}

const CELERY_NAMES = {
  exchange: 'exchange',
  routing_key: 'routingKey',
  reply_to: 'replyTo',
  correlation_id: 'correlationId',
  shadow: 'shadow',
} as const;

/** What decides where a task goes whose signature names no queue. */
export interface Routing {
  /** The queue of a task that has a handler here. */
  readonly queueOf: (name: string) => string | null;
  /**
   * Where any other task goes; `otherwise` replaces the default queue. Left out: to the queue of the task before it.
   */
  readonly routeOf?: (name: string, otherwise?: string) => Destination;
}

type Address = Pick<Envelope, 'queue' | 'priority'> & EnvelopeOptions;

/** Ends a group that replaced a task. Every worker has it, and its sender names no queue. */
const ACCUMULATE = 'celery.accumulate';

/** Where a task goes, and how urgent it is there: what its signature says comes first. */
export function addressOf(
  sending: Sending,
  queueBefore: string,
  { queueOf, routeOf }: Routing,
): Address {
  const { task, options } = sending.signature;
  const named = celeryOf(sending);
  const queue = textIn(options, 'queue') ?? queueOf(task);
  const isOpen = queue === null && named.exchange === undefined;
  // The default queue may be one that no worker takes from.
  const otherwise = task === ACCUMULATE ? queueBefore : undefined;
  const { priority: itsPriority, ...route } = (isOpen ? routeOf?.(task, otherwise) : null) ?? {
    queue: queue ?? queueBefore,
  };
  const given = decodePython(options.get('priority') ?? 'null');
  const priority = Number(given ?? itsPriority ?? 0);
  const urgency = Number.isInteger(priority) ? Math.min(9, Math.max(0, priority)) : 0;
  return { ...route, ...named, priority: urgency };
}

function celeryOf({ signature: { options } }: Sending): EnvelopeOptions {
  const found: Record<string, string> = {};
  for (const [theirs, ours] of Object.entries(CELERY_NAMES)) {
    const text = textIn(options, theirs);
    // A name is only shown; the others are limited to the length of a key.
    if (text !== null) found[ours] = ours === 'shadow' ? text : safeKey(text, theirs);
  }
  return found;
}

/** Seconds from now, or a time; one without an offset is UTC, as Celery's are. Anything else counts as none. */
export function momentOf(
  text: string | undefined,
  nowMs: number,
  round: (ms: number) => number,
): number | null {
  const value = decodePython(text ?? 'null');
  if (typeof value === 'number') return inCalendar(round(nowMs + value * 1_000));
  if (typeof value !== 'string') return null;
  const ms = parseInstant(value);
  return ms === null ? null : round(ms);
}

const LAST_MS = 8_640_000_000_000_000;

/** Databases hold no time beyond this. */
function inCalendar(ms: number): number {
  if (Math.abs(ms) <= LAST_MS) return ms;
  throw new TypeError('it is to be sent, or to expire, at a time that is none');
}

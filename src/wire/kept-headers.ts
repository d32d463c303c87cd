import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { readOptions } from '../task/read-options.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { OWN_HEADERS } from './header-names.ts';
import { textOf } from './header-texts.ts';

type Table = Readonly<Record<string, unknown>>;

/** Headers of foreign messages, for as long as the envelope is in use. */
const HEADERS = new WeakMap<Envelope, Table>();

/**
 * Remembers the headers of a foreign message: a worker that cannot run it gives it back unchanged. Ours can be rebuilt
 * as they were.
 */
export function rememberHeaders(envelope: Envelope, headers: Table): void {
  if (headers['lang'] !== 'js') HEADERS.set(envelope, headers);
}

/**
 * Headers that a broker acts on or has added itself: if we sent them, they would take effect once more and with our
 * rights. The body is inflated by now, and the refusals are written anew.
 */
const NOT_KEPT: ReadonlySet<string> = new Set(
  `
  CC BCC compression x-death x-delivery-count x-acquired-count x-first-death-exchange x-first-death-queue
  x-first-death-reason x-last-death-exchange x-last-death-queue x-last-death-reason
  `
    .trim()
    .split(/\s+/)
    .concat(OWN_HEADERS.refused),
);

/** The task with the headers of `message`; unchanged if it is ours. */
export function keepHeaders(envelope: Envelope, message: Envelope): Envelope {
  const headers = HEADERS.get(message);
  if (headers === undefined) return envelope;
  const options = readOptions(envelope);
  const kept = Object.entries(headers).filter(([name]) => !NOT_KEPT.has(name));
  const wire = Object.fromEntries(kept.map(([name, value]) => [name, plain(value)]));
  // Operators must not see arguments that a redactor hides.
  if (options.redacted !== undefined) for (const name of SHOWN) delete wire[name];
  return { ...envelope, options: toBytes(encodeJson({ ...options, wire })) };
}

const SHOWN = ['argsrepr', 'kwargsrepr'];

/** A value that JSON cannot express becomes a text, as handlers get it. */
export function plain(value: unknown): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return value.map(plain);
  const isTable = typeof value === 'object' && !(value instanceof Uint8Array);
  if (!isTable || value instanceof Date) return value === undefined ? null : textOf(value);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]));
}

/** The headers of a task that goes back unchanged; `made` are those we would write. */
export function headersAsKept(wire: Table, made: Table, { redacted }: EnvelopeOptions): Table {
  const refused = made[OWN_HEADERS.refused];
  return {
    ...wire,
    ...(redacted ? Object.fromEntries(SHOWN.map(name => [name, made[name]])) : {}),
    ...(redacted ? { [OWN_HEADERS.redacted]: true } : {}),
    ...(refused === undefined ? {} : { [OWN_HEADERS.refused]: refused }),
  };
}

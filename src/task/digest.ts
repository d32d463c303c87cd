import { createHash, hash } from 'node:crypto';
import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { toBytes, toText } from './json.ts';
import { itemsOf } from './json-slices.ts';
import { type Redact, redactEmbed } from './redact.ts';
import { EMBED } from './signature.ts';

/** A length goes in front of every part, so that no two lists of parts give the same bytes. */
export const sized = (part: string): string => `${Buffer.byteLength(part)}:${part}`;

/** What the digest covers; a caller that still has the body as text need not encode it first. */
interface DigestParts extends Pick<Envelope, 'name' | 'id' | 'version'> {
  readonly body: Uint8Array | string;
}

/** Covers the identity of a task: name, id, version and the exact bytes of its body. */
export function digestOf({ name, id, version, body }: DigestParts): string {
  const head = sized(name) + sized(id) + sized(String(version));
  if (typeof body === 'string') return hash('sha256', head + sized(body));
  const start = `${head}${body.length}:`;
  // Names and ids are nearly always ASCII; a UTF-16 unit takes three bytes at most.
  if (start.length * 3 + body.length > operations.length)
    return createHash('sha256').update(start).update(body).digest('hex');
  const from = operations.write(start);
  operations.set(body, from);
  return hash('sha256', operations.subarray(0, from + body.length));
}

/**
 * An envelope whose digest was computed here from its own bytes. A copy of it, or one that was stored and read again, is a
 * plain envelope: the worker that runs it compares first.
 */
export class MeasuredEnvelope implements Envelope {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly version: number;
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly digest: string;
  readonly etaMs: number | null;
  readonly expiresMs: number | null;
  readonly #isMeasured = true;

  /** `digest` is the result of `digestOf` for the rest. */
  constructor(parts: Envelope) {
    this.id = parts.id;
    this.name = parts.name;
    this.queue = parts.queue;
    this.priority = parts.priority;
    this.version = parts.version;
    this.body = parts.body;
    this.options = parts.options;
    this.digest = parts.digest;
    this.etaMs = parts.etaMs;
    this.expiresMs = parts.expiresMs;
  }

  static is(envelope: Envelope): boolean {
    return #isMeasured in envelope && envelope.#isMeasured;
  }
}

/** Whether an envelope has the bytes that were sent. */
export function isIntact(envelope: Envelope): boolean {
  return MeasuredEnvelope.is(envelope) || digestOf(envelope) === envelope.digest;
}

/** Short bodies are copied behind their head: one hash call for the whole costs half of one for each part. */
const operations = Buffer.allocUnsafeSlow(16_384);

/** The same for two sends of the same task with the same input, whatever their ids. */
export function fingerprintOf(name: string, version: number, args: string, kwargs: string): string {
  return hash('sha256', sized(name) + sized(String(version)) + sized(args) + sized(kwargs));
}

/** An id for a follow-up: the same parent and position give the same id, so a repeat is a copy and not a new task. */
export function derivedId(parentId: string, position: string): string {
  const hex = hash('sha256', sized(parentId) + sized(position));
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

type Call = Pick<Envelope, 'name' | 'body' | 'options'>;
type Copies = NonNullable<EnvelopeOptions['redacted']>;

/** What is shown of an unreadable body: a redactor cannot read it either. */
export const HIDDEN_COPIES: Copies = Object.freeze({ args: '"[hidden]"', kwargs: '"[hidden]"' });

/**
 * The task with redacted copies of its arguments, if its sender has made none: Python makes none, and neither does an
 * application without a redactor. Its bytes and its digest stay unchanged.
 */
export function withCopies<T extends Call>(envelope: T, redact: Redact | null): T {
  if (redact === null) return envelope;
  const options = optionsOf(envelope);
  if (options.redacted !== undefined) return envelope;
  const redacted = copiesOf(envelope, redact);
  return { ...envelope, options: toBytes(JSON.stringify({ ...options, redacted })) };
}

/** The copies of a call; hidden if its body is not what Celery writes. Never throws. */
function copiesOf({ name, body }: Pick<Envelope, 'name' | 'body'>, redact: Redact): Copies {
  try {
    const [args = '', kwargs = '', embed = EMBED] = itemsOf(toText(body));
    if (!args.startsWith('[') || !kwargs.startsWith('{')) return HIDDEN_COPIES;
    return { ...redact(name, { args, kwargs }), embed: redactEmbed(embed, redact) };
  } catch {
    return HIDDEN_COPIES;
  }
}

function optionsOf({ options }: Call): EnvelopeOptions {
  try {
    const read: unknown = JSON.parse(toText(options));
    return typeof read === 'object' && read !== null && !Array.isArray(read) ? read : {};
  } catch {
    return {};
  }
}

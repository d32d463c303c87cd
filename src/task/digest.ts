import { createHash, hash } from 'node:crypto';
import type { Envelope } from './envelope.ts';

/** A length goes in front of every part, so that no two lists of parts give the same bytes. */
export const sized = (part: string): string => `${Buffer.byteLength(part)}:${part}`;

/** What the digest covers; whoever still has the body as text need not wait for its bytes. */
interface DigestParts extends Pick<Envelope, 'name' | 'id' | 'version'> {
  readonly body: Uint8Array | string;
}

/** Covers what a task is: name, id, version and the exact bytes of its body. */
export function digestOf({ name, id, version, body }: DigestParts): string {
  const head = sized(name) + sized(id) + sized(String(version));
  if (typeof body === 'string') return hash('sha256', head + sized(body));
  const start = `${head}${body.length}:`;
  // Names and ids are ASCII nearly always; three bytes for a unit of UTF-16 at most.
  if (start.length * 3 + body.length > desk.length)
    return createHash('sha256').update(start).update(body).digest('hex');
  const from = desk.write(start);
  desk.set(body, from);
  return hash('sha256', desk.subarray(0, from + body.length));
}

/**
 * An envelope whose digest was made here from the bytes that it has. A copy of it, or one that was stored and read again,
 * is a plain envelope: whoever runs that one compares first.
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

  /** `digest` is what `digestOf` has said of the rest. */
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

/** Where short bodies are put behind their head: one call for the whole costs half of one for each part. */
const desk = Buffer.allocUnsafeSlow(16_384);

/** The same for two sends of the same task with the same input, whatever their ids. */
export function fingerprintOf(name: string, version: number, args: string, kwargs: string): string {
  return hash('sha256', sized(name) + sized(String(version)) + sized(args) + sized(kwargs));
}

/** An id for a follow-up: the same parent and position give the same id, so a repeat is a copy and not a new task. */
export function derivedId(parentId: string, position: string): string {
  const hex = hash('sha256', sized(parentId) + sized(position));
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

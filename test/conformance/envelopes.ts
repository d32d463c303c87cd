import { randomBytes } from 'node:crypto';
import { digestOf } from '../../src/task/digest.ts';
import type { Envelope } from '../../src/task/envelope.ts';

const session = randomBytes(4).toString('hex');
let count = 0;

/** A name no other test uses: suites share one store, so nothing may depend on it being empty. */
export function unique(kind: string): string {
  count += 1;
  return `${kind}-${session}-${count}`;
}

/** The three texts a body is made of. An outbox may store them separately. */
export interface BodyParts {
  readonly args: Uint8Array;
  readonly kwargs: Uint8Array;
  readonly embed: Uint8Array;
}

const encoder = new TextEncoder();
const partsByBody = new WeakMap<Uint8Array, BodyParts>();

/** Bytes no text column and no JSON type would carry unchanged: NUL, 0xff, half a character, quotes, an emoji. */
export const AWKWARD_BYTES: Uint8Array = Uint8Array.from([
  0x5b, 0x00, 0xff, 0xfe, 0xc3, 0x22, 0x27, 0x5c, 0x0a, 0x0d, 0x24, 0x31, 0xf0, 0x9f, 0x98, 0x80,
  0x5d,
]);

function join(parts: BodyParts): Uint8Array {
  const body = Buffer.concat([
    encoder.encode('['),
    parts.args,
    encoder.encode(','),
    parts.kwargs,
    encoder.encode(','),
    parts.embed,
    encoder.encode(']'),
  ]);
  return new Uint8Array(body);
}

/** The parts an envelope of `makeEnvelope` was made of. */
export function bodyParts(envelope: Envelope): BodyParts {
  const parts = partsByBody.get(envelope.body);
  if (parts === undefined) throw new Error('not an envelope of makeEnvelope');
  return parts;
}

export interface EnvelopeMaking extends Partial<Omit<Envelope, 'body' | 'digest'>> {
  readonly args?: Uint8Array;
  /** What follows it, as JSON text. */
  readonly embed?: string;
}

export function makeEnvelope(making: EnvelopeMaking = {}): Envelope {
  const { args, embed, ...fields } = making;
  const id = fields.id ?? unique('task');
  const parts: BodyParts = {
    args: args ?? encoder.encode(`["${id}"]`),
    kwargs: encoder.encode('{"a":1}'),
    embed: encoder.encode(embed ?? '{"callbacks":null}'),
  };
  const body = join(parts);
  partsByBody.set(body, parts);
  const named = {
    name: 'conformance.task',
    queue: unique('queue'),
    priority: 0,
    version: 1,
    ...fields,
    id,
  };
  return {
    options: encoder.encode('{"headers":{"region":"eu"}}'),
    etaMs: null,
    expiresMs: null,
    ...named,
    body,
    digest: digestOf({ ...named, body }),
  };
}

export function makeEnvelopes(n: number, making: EnvelopeMaking = {}): Envelope[] {
  return Array.from({ length: n }, () => makeEnvelope(making));
}

/** Plain arrays compare byte by byte whatever class of bytes an adapter gives. */
export const bytesOf = (bytes: Uint8Array | null | undefined): number[] | null =>
  bytes === null || bytes === undefined ? null : [...bytes];

/** What must be the same at both ends. */
export function plainEnvelope(envelope: Envelope): object {
  const { id, name, queue, priority, version, digest, etaMs, expiresMs } = envelope;
  const body = bytesOf(envelope.body);
  return {
    id,
    name,
    queue,
    priority,
    version,
    digest,
    etaMs,
    expiresMs,
    body,
    options: bytesOf(envelope.options),
  };
}

export const ids = (items: readonly { readonly id: string }[]): string[] =>
  items.map(({ id }) => id);

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;

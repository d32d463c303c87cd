import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { digestOf } from '../task/digest.ts';
import { earliest, type Envelope, type EnvelopeOptions } from '../task/envelope.ts';
import { toBytes, toText } from '../task/json.ts';
import { decodeMessage } from './decode-message.ts';
import { encodeMessage } from './encode-message.ts';

const name = fc.stringMatching(/^[A-Za-z0-9_.:@/-]{1,40}$/);
const instant = fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 });
const text = fc.string({ minLength: 1, maxLength: 40, unit: 'grapheme' });
const headerName = fc
  .oneof(
    text,
    fc.constantFrom('task', 'id', 'headers', 'eta', 'deadline', 'outlast-digest', 'args'),
  )
  .filter(key => key !== '__proto__');

const options: fc.Arbitrary<EnvelopeOptions> = fc.record(
  {
    headers: fc.dictionary(headerName, fc.string({ unit: 'binary', maxLength: 60 }), {
      minKeys: 1,
      maxKeys: 8,
    }),
    timeoutMs: fc.integer({ min: 1, max: 2 ** 40 }),
    softTimeoutMs: fc.integer({ min: 1, max: 2 ** 40 }),
    deadlineMs: instant,
    keepResult: fc.constant(false),
    rootId: name,
    parentId: name,
    groupId: name,
    groupIndex: fc.nat(),
    shadow: text,
    replyTo: text,
    correlationId: text,
    idempotencyKey: text,
    signature: fc.stringMatching(/^[A-Za-z0-9_-]{1,8}[.][0-9a-f]{64}$/),
    redacted: fc.record({ args: fc.json(), kwargs: fc.json() }),
  },
  { requiredKeys: [] },
);

const envelope = fc
  .record({
    id: name,
    name,
    queue: name,
    priority: fc.integer({ min: 0, max: 9 }),
    version: fc.integer({ min: 1, max: 32_767 }),
    body: fc.uint8Array({ maxLength: 300 }),
    etaMs: fc.option(instant),
    expiresMs: fc.option(instant),
    options,
  })
  // A root or correlation id that equals the id is not sent, and so does not come back.
  .filter(made => made.options.rootId !== made.id && made.options.correlationId !== made.id)
  .map(made => ({
    ...made,
    expiresMs: earliest(made.expiresMs, made.options.deadlineMs ?? null),
    options: toBytes(JSON.stringify(made.options)),
    digest: digestOf(made),
  }));

const plain = (made: Envelope): object => ({
  ...made,
  body: [...made.body],
  options: JSON.parse(toText(made.options)) as unknown,
});

it('decodes every message to the envelope that was encoded', () => {
  fc.assert(
    fc.property(envelope, sent => {
      const message = encodeMessage(sent, 'gen1@host');
      // Redis stores JSON text; the header table of RabbitMQ keeps the same values.
      const headers = JSON.parse(JSON.stringify(message.headers)) as unknown;
      const received = decodeMessage({ ...message, headers, queue: sent.queue });
      if ('raw' in received) throw new Error(received.why);
      expect(plain(received)).toEqual(plain(sent));
    }),
    { numRuns: 500 },
  );
});

it('decodes any input without throwing, and keeps the bytes', () => {
  const known = fc.constantFrom('lang', 'task', 'id', 'eta', 'timelimit', 'headers', 'compression');
  const headers = fc.dictionary(fc.oneof(known, fc.string()), fc.jsonValue());
  const properties = fc.record(
    { contentType: fc.constantFrom('application/json', 'x'), priority: fc.anything() },
    { requiredKeys: [] },
  );
  const message = fc.record({
    headers: fc.oneof(headers, fc.anything()),
    properties,
    body: fc.uint8Array(),
    queue: fc.constant('q'),
  });
  fc.assert(
    fc.property(message, received => {
      const decoded = decodeMessage(received);
      if ('raw' in decoded) expect(decoded.raw).toBe(received.body);
      else expect(decoded.id).toBe((received.headers as { id: unknown }).id);
    }),
    { numRuns: 2_000 },
  );
});

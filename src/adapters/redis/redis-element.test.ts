import { describe, expect, it } from 'vitest';
import { redisReplies } from '../../../test/support/fleet-vectors.ts';
import { makeEnvelope } from '../../../test/conformance/envelopes.ts';
import {
  decodeElement,
  encodeElement,
  encodeNotice,
  readParts,
  type ElementParts,
} from './redis-element.ts';

interface Reply {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly properties: {
    readonly delivery_info: { readonly exchange: string; readonly routing_key: string };
  };
}

describe('a reply to a remote control command', () => {
  it.each(redisReplies().map(({ element }, index) => [index, element] as const))(
    'equals the element that Celery pushes, except for its tag: %i',
    (_index, element) => {
      const theirs = JSON.parse(element) as Reply;
      const { exchange, routing_key: routingKey } = theirs.properties.delivery_info;
      const { body } = readParts(Buffer.from(element)) as ElementParts;
      const { headers } = theirs;
      const tag = expect.stringMatching(/^[0-9a-f-]{36}$/) as string;
      expect(JSON.parse(encodeNotice({ exchange, routingKey, headers, body }))).toEqual({
        ...theirs,
        properties: { ...theirs.properties, delivery_tag: tag },
      });
    },
  );
});

describe('an element', () => {
  it('is truncated without being parsed when it is longer than any message may be', () => {
    const long = Buffer.from(`{"body":"${'x'.repeat(400_000)}`);
    expect(decodeElement(long, 'queue', 0, 100_000)).toMatchObject({
      reason: 'ERR_MESSAGE_TOO_LARGE',
      raw: new Uint8Array(long.subarray(0, 4_096)),
      cut: { bytes: long.length },
    });
    // The longest allowed, in base64 and with everything around it.
    const args = Buffer.from(`["${'x'.repeat(99_950)}"]`);
    const element = encodeElement(makeEnvelope({ id: 'a', args }), 'origin');
    expect(decodeElement(Buffer.from(element.text), 'queue', 0, 100_000)).toMatchObject({
      id: 'a',
    });
  });
});

import { describe, expect, it } from 'vitest';
import { redisReplies } from '../../../test/support/fleet-vectors.ts';
import { encodeNotice, readParts, type ElementParts } from './redis-element.ts';

interface Reply {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly properties: {
    readonly delivery_info: { readonly exchange: string; readonly routing_key: string };
  };
}

describe('an answer of remote control', () => {
  it.each(redisReplies().map(({ element }, index) => [index, element] as const))(
    'is the element that Celery pushes, but for its tag: %i',
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

import { describe, expect, it } from 'vitest';
import { controlCases } from '../../test/support/fleet-vectors.ts';
import { toBytes } from '../task/json.ts';
import { isTruthy, readRequest, writeReply, writeRevoke } from './control-message.ts';

const request = (fields: object, headers: unknown = {}) =>
  readRequest(headers, toBytes(JSON.stringify({ method: 'ping', ...fields })));

it.each([
  [[true, 1, -1, 'false', '0', [0], { a: 0 }, NaN], true],
  [[false, 0, -0, '', null, undefined, [], {}], false],
] as const)('a flag is what Python takes it for: %j', (values, expected) => {
  for (const value of values) expect([value, isTruthy(value)]).toEqual([value, expected]);
});

describe('a remote control request', () => {
  it('to revoke a task is written as Celery writes it', () => {
    const [{ request: theirs }] = controlCases().filter(({ name }) => name === 'revoked') as [
      ReturnType<typeof controlCases>[number],
    ];
    const { body, headers } = writeRevoke('some-id');
    const written = JSON.parse(theirs.body) as { arguments: object };
    expect(JSON.parse(Buffer.from(body).toString())).toEqual({
      ...written,
      arguments: { ...written.arguments, task_id: 'some-id' },
    });
    expect(Object.keys(headers)).toEqual(Object.keys(theirs.headers));
  });

  it.each(controlCases().map(given => [given.name, given] as const))(
    'is read as Celery wrote it: %s',
    (_name, { request: { headers, body }, reply }) => {
      const read = readRequest(headers, toBytes(body));
      const written = JSON.parse(body) as Record<string, unknown>;
      expect(read).toMatchObject({
        method: written['method'],
        arguments: written['arguments'],
        destination: written['destination'],
        pattern: null,
        matcher: null,
        clock: headers['clock'],
        expiresMs: Number(headers['expires']) * 1_000,
      });
      expect(read?.replyTo).toEqual(
        reply === null ? null : { routingKey: reply.routing_key, ticket: reply.headers['ticket'] },
      );
    },
  );

  it.each(controlCases().flatMap(({ name, reply }) => (reply ? [[name, reply] as const] : [])))(
    'is answered as Celery answers: %s',
    (_name, { headers, body }) => {
      const [[node, answer]] = Object.entries(JSON.parse(body) as object) as [[string, unknown]];
      const [ticket, clock] = [String(headers['ticket']), Number(headers['clock'])];
      const written = writeReply(node, answer, { ticket, clock });
      expect(written.headers).toEqual(headers);
      expect(JSON.parse(Buffer.from(written.body).toString())).toEqual(JSON.parse(body));
    },
  );

  it.each([
    ['bytes that are not text', Uint8Array.of(0xff, 0xfe)],
    ['text that is not JSON', toBytes('{')],
    ['no object', toBytes('[1]')],
    ['no method', toBytes('{"arguments": {}}')],
    ['more bytes than the limit', toBytes(JSON.stringify({ method: 'x'.repeat(2_000_000) }))],
  ])('is ignored when it has %s', (_what, body) => {
    expect(readRequest({}, body)).toBeNull();
  });

  it('is answered only on the reply exchange of Celery', () => {
    const to = (exchange: string) => ({ reply_to: { exchange, routing_key: 'k' }, ticket: 't' });
    expect(request(to('reply.celery.pidbox'))?.replyTo).toEqual({ routingKey: 'k', ticket: 't' });
    expect(request(to('orders'))?.replyTo).toBeNull();
    expect(request(to(''))?.replyTo).toBeNull();
  });

  it.each([['text'], [-1], [1.5], [Number.MAX_VALUE], [null]])(
    'has clock 0 when its clock is %j',
    clock => {
      expect(request({}, { clock })?.clock).toBe(0);
    },
  );
});

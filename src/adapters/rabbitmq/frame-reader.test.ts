import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readDeliveries } from './frame-reader.ts';

/** The internals of amqplib that read frames. */
interface Connection {
  recvFrame: () => unknown;
}
interface Defs {
  readonly BasicDeliver: number;
  readonly BasicProperties: number;
  readonly QueueDeclareOk: number;
  encodeMethod(id: number, channel: number, fields: object): Buffer;
  encodeProperties(id: number, channel: number, size: number, fields: object): Buffer;
}

const require = createRequire(import.meta.url);
const inside = (name: string): unknown =>
  require(join(dirname(require.resolve('amqplib')), 'lib', name));
const { Connection } = inside('connection.js') as {
  readonly Connection: new (stream: PassThrough) => Connection;
};
const defs = inside('defs.js') as Defs;

interface Message {
  readonly deliveryTag: number;
  readonly channel: number;
  readonly consumerTag: string;
  readonly queue: string;
  readonly headers: Record<string, unknown>;
  readonly priority: number;
  readonly body: string;
  readonly isAfterOther: boolean;
}

function bodyFrame(channel: number, body: Buffer): Buffer {
  const head = Buffer.alloc(7);
  head.writeUInt8(3, 0);
  head.writeUInt16BE(channel, 1);
  head.writeUInt32BE(body.length, 3);
  return Buffer.concat([head, body, Buffer.from([0xce])]);
}

function framesOf(message: Message): Buffer {
  const { channel, consumerTag, deliveryTag, queue, headers, priority } = message;
  const delivery = {
    consumerTag,
    deliveryTag,
    redelivered: false,
    exchange: '',
    routingKey: queue,
  };
  const properties = { contentType: 'application/json', headers, priority, timestamp: 7 };
  const body = Buffer.from(message.body);
  const other = { queue, messageCount: 1, consumerCount: 2 };
  return Buffer.concat([
    ...(message.isAfterOther ? [defs.encodeMethod(defs.QueueDeclareOk, channel, other)] : []),
    defs.encodeMethod(defs.BasicDeliver, channel, delivery),
    defs.encodeProperties(defs.BasicProperties, channel, body.length, properties),
    ...(body.length > 0 ? [bodyFrame(channel, body)] : []),
  ]);
}

/** The frames that a connection reads from bytes that arrive in these pieces. */
function read(pieces: readonly Buffer[], prepare: (connection: Connection) => void): unknown[] {
  const stream = new PassThrough();
  const connection = new Connection(stream);
  prepare(connection);
  const frames: unknown[] = [];
  for (const piece of pieces) {
    stream.write(piece);
    for (let frame = connection.recvFrame(); frame !== false; frame = connection.recvFrame())
      frames.push(frame);
  }
  return frames;
}

const value = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  fc.double({ noNaN: true, min: -1e6, max: 1e6 }),
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.oneof(fc.string(), fc.constant(null)), { maxLength: 3 }),
  fc.dictionary(fc.stringMatching(/^[a-z]{0,5}$/), fc.string(), {
    maxKeys: 3,
    noNullPrototype: true,
  }),
);
const message = fc.record<Message>({
  deliveryTag: fc.integer({ min: 1, max: 2 ** 40 }),
  channel: fc.integer({ min: 1, max: 9 }),
  consumerTag: fc.constantFrom('amq.ctag-one', 'amq.ctag-two', 'x'.repeat(200)),
  queue: fc.constantFrom('emails', 'emaild', 'öl', ''),
  headers: fc.dictionary(
    fc.constantFrom('task', 'id', 'tosk', 'lang', 'a long name of a header that is no known one'),
    value,
    { noNullPrototype: true },
  ),
  priority: fc.integer({ min: 0, max: 9 }),
  body: fc.string(),
  isAfterOther: fc.boolean(),
});

describe('frames of deliveries', () => {
  it('are read as amqplib reads them, however the bytes are split', () => {
    const plan = fc.record({
      messages: fc.array(message, { minLength: 1, maxLength: 6 }),
      cuts: fc.array(fc.nat(), { maxLength: 8 }),
    });
    fc.assert(
      fc.property(plan, ({ messages, cuts }) => {
        const bytes = Buffer.concat(messages.map(framesOf));
        const offsets = [0, ...cuts.map(cut => cut % bytes.length), bytes.length];
        const sorted = offsets.sort((a, b) => a - b);
        const pieces = sorted.slice(1).map((end, at) => bytes.subarray(sorted[at], end));
        const theirs = read(pieces, () => undefined);
        expect(theirs.length).toBeGreaterThanOrEqual(2 * messages.length);
        const ours = read(pieces, connection => {
          const { recvFrame } = connection;
          readDeliveries(connection);
          // The reader replaces an internal function of amqplib, which must still exist.
          expect(connection.recvFrame).not.toBe(recvFrame);
        });
        expect(ours).toEqual(theirs);
      }),
    );
  });

  it('are refused as amqplib refuses them when they are broken', () => {
    const bytes = framesOf({
      deliveryTag: 1,
      channel: 1,
      consumerTag: 'a',
      queue: 'emails',
      headers: {},
      priority: 0,
      body: 'x',
      isAfterOther: false,
    });
    bytes[bytes.length - 1] = 0;
    expect(() => read([bytes], readDeliveries)).toThrow('Invalid frame');
  });
});
